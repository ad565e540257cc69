/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kselftest harness with a longer timeout, for debug kernels in an emulator on a
 * busy host: tests that hang are still ended.
 */
#ifndef _UNWIND_HARNESS_H
#define _UNWIND_HARNESS_H

#include "../../kselftest_harness.h"

#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT	300

#endif /* _UNWIND_HARNESS_H */
