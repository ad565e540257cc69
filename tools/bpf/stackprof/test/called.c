// SPDX-License-Identifier: GPL-2.0
/*
 * A library with one function, whose name is given when it is compiled. Only its symbol
 * table has that name: 'called' is the same in all of them, and at the same place.
 */
static void NAME(void (*function)(void))
{
	function();
	/* The call is not the last thing that is done here. */
	asm volatile("");
}

void (*const called)(void (*)(void)) = NAME;
