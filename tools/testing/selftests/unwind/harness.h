/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The harness of kselftests, with time for a debug kernel in an emulator on a host
 * that is busy with others: what hangs is ended all the same.
 */
#ifndef _UNWIND_HARNESS_H
#define _UNWIND_HARNESS_H

#include "../kselftest_harness.h"

#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT	300

#endif /* _UNWIND_HARNESS_H */
