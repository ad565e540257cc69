// SPDX-License-Identifier: GPL-2.0
/*
 * A library with one function, whose name is chosen at compile time. Only the symbol table has
 * that name: 'called' has the same name and the same address in all such libraries.
 */
static void NAME(void (*function)(void))
{
	function();
	/* Do not let the call become a tail call. */
	asm volatile("");
}

void (*const called)(void (*)(void)) = NAME;
