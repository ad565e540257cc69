// SPDX-License-Identifier: GPL-2.0
module unwind/stacks

go 1.19
