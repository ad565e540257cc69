// SPDX-License-Identifier: GPL-2.0
#include <protobuf-c/protobuf-c.h>

int main(void)
{
	return !protobuf_c_version();
}
