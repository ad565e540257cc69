// SPDX-License-Identifier: GPL-2.0
/*
 * The user-bound program of make demo: evaluates a nested expression over and
 * over, 100 times for each unit of its argument. A parser by recursive descent has
 * named functions and stacks of some depth. Built with frame pointers.
 */
#include <stdio.h>
#include <stdlib.h>

#define LEVELS		12
#define EVALUATIONS	100

struct input {
	const char *at;
};

static long parse_sum(struct input *in);

static char next_token(struct input *in)
{
	while (*in->at == ' ')
		in->at++;
	return *in->at;
}

static long parse_number(struct input *in)
{
	long value = 0;

	while (*in->at >= '0' && *in->at <= '9')
		value = value * 10 + (*in->at++ - '0');
	return value;
}

static long parse_atom(struct input *in)
{
	long value;

	if (next_token(in) != '(')
		return parse_number(in);

	in->at++;
	value = parse_sum(in);
	if (next_token(in) == ')')
		in->at++;
	return value;
}

static long parse_product(struct input *in)
{
	long value = parse_atom(in);

	while (next_token(in) == '*') {
		in->at++;
		value = value * parse_atom(in) % 1000003;
	}
	return value;
}

static long parse_sum(struct input *in)
{
	long value = parse_product(in);

	while (next_token(in) == '+') {
		in->at++;
		value += parse_product(in);
	}
	return value;
}

static long evaluate(const char *expression)
{
	struct input in = { .at = expression };

	return parse_sum(&in);
}

static long evaluate_batch(const char *expression)
{
	long sum = 0;

	for (int i = 0; i < EVALUATIONS; i++)
		sum += evaluate(expression);
	return sum;
}

/* ( ( 1 + 11 ) * 3 + 12 ) * 3 + ... */
static void make_expression(char *text)
{
	for (int i = 0; i < LEVELS; i++)
		text += sprintf(text, "( ");
	text += sprintf(text, "1 ");
	for (int i = 0; i < LEVELS; i++)
		text += sprintf(text, "+ %d ) * 3 ", 11 + i);
}

int main(int argc, char **argv)
{
	int batches = argc > 1 ? atoi(argv[1]) : 1;
	char expression[LEVELS * 16 + 8];
	long sum = 0;

	make_expression(expression);
	for (int i = 0; i < batches; i++)
		sum += evaluate_batch(expression);

	printf("%d evaluations, sum %ld\n", batches * EVALUATIONS, sum);
	return 0;
}
