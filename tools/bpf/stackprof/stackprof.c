// SPDX-License-Identifier: GPL-2.0
/*
 * stackprof: profiles of kernel and user stacks, on and off CPU.
 *
 * BPF programs take samples and request the user stack of their kernel entry. The kernel walks
 * the stack when the task returns to user mode, where the walk may fault. The cookie of the
 * entry joins both halves.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "prof.h"

#define DEFAULT_FREQ	99
#define DEFAULT_DEPTH	127
/* Per-CPU values of a map are at most 32 KiB. */
#define MAX_DEPTH	((32768 - sizeof(struct record_stack)) / sizeof(__u64))
#define DEFAULT_TOP	20
#define DEFAULT_TASKS	16384
#define DEFAULT_RING	(8ULL << 20)

/* By default, the map of stacks has so many; with a larger depth, it takes so much memory. */
#define DEFAULT_STACKS	16384
#define STACKS_MEMORY	(16ULL << 20)

/* The inode number of the initial PID namespace. */
#define INIT_PID_NS	0xeffffffc

enum {
	OPTION_OFF_CPU = 256,
	OPTION_FOLDED,
	OPTION_PPROF,
	OPTION_DEPTH,
	OPTION_STACKS,
	OPTION_TASKS,
	OPTION_RING_SIZE,
};

static const struct option long_options[] = {
	{ "event", required_argument, NULL, 'e' },
	{ "freq", required_argument, NULL, 'F' },
	{ "count", required_argument, NULL, 'c' },
	{ "pid", required_argument, NULL, 'p' },
	{ "duration", required_argument, NULL, 'd' },
	{ "top", required_argument, NULL, 'n' },
	{ "output", required_argument, NULL, 'o' },
	{ "verbose", no_argument, NULL, 'v' },
	{ "help", no_argument, NULL, 'h' },
	{ "off-cpu", no_argument, NULL, OPTION_OFF_CPU },
	{ "folded", no_argument, NULL, OPTION_FOLDED },
	{ "pprof", required_argument, NULL, OPTION_PPROF },
	{ "depth", required_argument, NULL, OPTION_DEPTH },
	{ "stacks", required_argument, NULL, OPTION_STACKS },
	{ "tasks", required_argument, NULL, OPTION_TASKS },
	{ "ring-size", required_argument, NULL, OPTION_RING_SIZE },
	{}
};

static const char usage[] =
	"usage: stackprof [OPTIONS] [-- COMMAND [ARGUMENT...]]\n"
	"\n"
	"Profiles kernel and user stacks of all processes, some, or a command.\n"
	"\n"
	"  -e, --event EVENT     take samples at EVENT, as perf names it (cpu-clock)\n"
	"  -F, --freq HZ         so many samples a second and CPU (99)\n"
	"  -c, --count N         a sample after every N events\n"
	"      --off-cpu         instead, time for which threads are blocked\n"
	"  -p, --pid PID[,PID]   only these processes, and those that they start\n"
	"  -d, --duration SEC    end after SEC seconds\n"
	"      --folded          write folded stacks, for flame graphs\n"
	"      --pprof FILE      write a profile for pprof\n"
	"  -n, --top N           stacks in the plain report (20)\n"
	"  -o, --output FILE     write the report or the folded stacks to FILE\n"
	"      --depth N         addresses of a stack (127)\n"
	"      --stacks N        room for N different stacks in the kernel (16384)\n"
	"      --tasks N         room for N processes and N blocked threads (16384)\n"
	"      --ring-size KIB   room for records on their way (8192)\n"
	"  -v, --verbose         show what libbpf says\n"
	"  -h, --help            show this\n";

static struct {
	struct settings	settings;
	struct profile	profile;
	const char	*event;
	__u64		freq;
	__u64		count;
	double		duration;
	bool		folded;
	const char	*pprof;
	const char	*output;
	char		**command;
	struct pollfd	*pidfds;
	__u32		*pids;
	size_t		nr_pids;
	size_t		room_pids;
} args = {
	.settings.depth = DEFAULT_DEPTH,
	.settings.tasks = DEFAULT_TASKS,
	.settings.ring_size = DEFAULT_RING,
	.profile.top = DEFAULT_TOP,
};

static volatile sig_atomic_t interrupted;

static __u64 parse_value(const char *option, const char *text, __u64 max)
{
	__u64 value;

	if (!parse_number(text, &value) || !value || value > max)
		die(STATUS_USAGE, "%s takes a number from 1 to %llu, not '%s'", option, max,
		    text);
	return value;
}

static void parse_pids(char *list)
{
	char *text;

	while ((text = strsep(&list, ","))) {
		args.pids = xgrow(args.pids, args.nr_pids, &args.room_pids, sizeof(*args.pids));
		args.pids[args.nr_pids++] = parse_value("--pid", text, 1 << 22);
	}
}

static void parse_duration(const char *text)
{
	char *end;

	args.duration = strtod(text, &end);
	if (*end || !(args.duration > 0) || args.duration > 1e9)
		die(STATUS_USAGE, "--duration takes a number of seconds, not '%s'", text);
}

static void parse_ring_size(const char *text)
{
	const __u64 kib = parse_value("--ring-size", text, 1 << 20);

	if (kib < 4 || (kib & (kib - 1)))
		die(STATUS_USAGE, "--ring-size takes a power of two from 4 on, not '%s'", text);
	args.settings.ring_size = kib << 10;
}

static void parse_option(int option)
{
	switch (option) {
	case 'e':
		args.event = optarg;
		break;
	case 'F':
		args.freq = parse_value("--freq", optarg, 1000000);
		break;
	case 'c':
		args.count = parse_value("--count", optarg, 1ULL << 62);
		break;
	case 'p':
		parse_pids(optarg);
		break;
	case 'd':
		parse_duration(optarg);
		break;
	case 'n':
		args.profile.top = parse_value("--top", optarg, 1ULL << 62);
		break;
	case 'o':
		args.output = optarg;
		break;
	case 'v':
		args.settings.verbose = true;
		break;
	case OPTION_OFF_CPU:
		args.settings.off_cpu = true;
		break;
	case OPTION_FOLDED:
		args.folded = true;
		break;
	case OPTION_PPROF:
		args.pprof = optarg;
		break;
	case OPTION_DEPTH:
		args.settings.depth = parse_value("--depth", optarg, MAX_DEPTH);
		break;
	case OPTION_STACKS:
		args.settings.stacks = parse_value("--stacks", optarg, 1 << 24);
		break;
	case OPTION_TASKS:
		args.settings.tasks = parse_value("--tasks", optarg, 1 << 24);
		break;
	case OPTION_RING_SIZE:
		parse_ring_size(optarg);
		break;
	case 'h':
		fputs(usage, stdout);
		exit(0);
	case ':':
		die(STATUS_USAGE, "option '%s' lacks its value; see --help",
		    args.command[optind - 1]);
	default:
		die(STATUS_USAGE, "there is no option '%s'; see --help", args.command[optind - 1]);
	}
}

static void check_depth(void)
{
	FILE *file = fopen("/proc/sys/kernel/perf_event_max_stack", "re");
	unsigned long long max;

	if (!file)
		die(STATUS_FAILED, "this kernel has no perf events; it needs CONFIG_PERF_EVENTS=y");
	if (fscanf(file, "%llu", &max) == 1 && args.settings.depth > max)
		die(STATUS_FAILED,
		    "--depth is up to %llu here; for more, call 'sysctl %s=%llu'", max,
		    "kernel.perf_event_max_stack", args.settings.depth);
	fclose(file);
}

static void set_event(struct event *event)
{
	event_parse(event, args.event ?: "cpu-clock");
	if (event->category && args.freq)
		die(STATUS_USAGE, "a tracepoint has no frequency; use --count");
	if (event->has_period && (args.freq || args.count))
		die(STATUS_USAGE,
		    "event '%s' has a period of its own; leave out --freq and --count",
		    event->name);
	if (event->has_period)
		return;
	if (event->category && !args.count)
		args.count = 1;
	event->attr.freq = !args.count;
	event->attr.sample_period = args.count ?: args.freq ?: DEFAULT_FREQ;
}

static void check_options(void)
{
	struct settings *settings = &args.settings;

	if (args.freq && args.count)
		die(STATUS_USAGE, "--freq and --count exclude each other");
	if (settings->off_cpu && (args.event || args.freq || args.count))
		die(STATUS_USAGE, "--off-cpu goes without --event, --freq and --count");
	if (args.command && args.nr_pids)
		die(STATUS_USAGE, "--pid goes without a command");
	if (!settings->off_cpu)
		set_event(&settings->event);
	if (!settings->stacks)
		settings->stacks = DEFAULT_STACKS * settings->depth * sizeof(__u64) <
				   STACKS_MEMORY + STACKS_MEMORY / 8 ? DEFAULT_STACKS :
				   STACKS_MEMORY / (settings->depth * sizeof(__u64));
	settings->only_targets = args.command || args.nr_pids;
	check_depth();
}

static void parse_args(int argc, char **argv)
{
	int option;

	opterr = 0;
	args.command = argv;
	while ((option = getopt_long(argc, argv, "+:e:F:c:p:d:n:o:vh", long_options, NULL)) != -1)
		parse_option(option);
	args.command = optind < argc ? argv + optind : NULL;
	check_options();
}

/* The kernel reports process numbers of the initial PID namespace. */
static void check_namespace(void)
{
	struct stat stat_buf;

	if (!stat("/proc/self/ns/pid", &stat_buf) && stat_buf.st_ino != INIT_PID_NS)
		die(STATUS_FAILED, "this is a PID namespace; run stackprof outside of it");
}

static void open_pids(void)
{
	args.pidfds = xalloc((args.nr_pids ?: 1) * sizeof(*args.pidfds));
	for (size_t i = 0; i < args.nr_pids; i++) {
		args.pidfds[i].fd = syscall(__NR_pidfd_open, args.pids[i], 0);
		args.pidfds[i].events = POLLIN;
		if (args.pidfds[i].fd >= 0)
			continue;
		if (errno == ESRCH)
			die(STATUS_FAILED, "there is no process %u", args.pids[i]);
		die(STATUS_FAILED, "%u is a thread; give the number of its process",
		    args.pids[i]);
	}
}

static void add_targets(void)
{
	for (size_t i = 0; i < args.nr_pids; i++)
		session_target(args.pids[i]);
	if (args.command)
		session_target(command_pid());
}

static bool targets_ended(void)
{
	if (args.command)
		return command_ended();
	if (!args.nr_pids)
		return false;
	poll(args.pidfds, args.nr_pids, 0);
	for (size_t i = 0; i < args.nr_pids; i++)
		if (!args.pidfds[i].revents)
			return false;
	return true;
}

static void on_signal(int signal)
{
	interrupted = 1;
}

/* A second signal ends the program. */
static void catch_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESETHAND };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

static void take_samples(void)
{
	struct timespec real;
	__u64 begin, end;

	clock_gettime(CLOCK_REALTIME, &real);
	args.profile.begin = real.tv_sec * NSEC_PER_SEC + real.tv_nsec;
	catch_signals();
	session_start();
	begin = now_ns();
	end = args.duration ? begin + (__u64)(args.duration * NSEC_PER_SEC) : ~0ULL;
	if (args.command)
		command_run();
	while (!interrupted && now_ns() < end && !targets_ended())
		session_poll();
	args.profile.duration = now_ns() - begin;
	session_stop();
	if (args.command)
		command_stop();
}

static void write_reports(FILE *out)
{
	if (!args.settings.off_cpu)
		args.profile.event = &args.settings.event;
	symbols_init();
	if (args.pprof)
		pprof_write(&args.profile, args.pprof);
	if (args.folded)
		report_folded(&args.profile, out);
	else if (!args.pprof)
		report_plain(&args.profile, out);
	if (fflush(out) || ferror(out))
		die(STATUS_FAILED, "cannot write the report: %s", strerror(errno));
}

/* Show all counts, also those that are 0: then the user knows that nothing is missing. */
static void show_losses(void)
{
	const struct merge_stats *stats = merge_stats();
	struct losses losses;

	session_losses(&losses);
	say("%llu samples: %llu with user stack, %llu of kernel threads, %llu lost",
	    losses.samples, stats->state[USER_MATCHED], stats->state[USER_NONE],
	    losses.lost_samples);
	say("without user stack: %llu refused, %llu empty, %llu not delivered",
	    stats->state[USER_REFUSED], stats->state[USER_EMPTY],
	    stats->state[USER_UNMATCHED]);
	say("stacks: %llu samples cut, %llu without kernel stack, %llu stacks lost",
	    stats->cut, stats->lost_kernel, losses.lost_stacks);
	say("%llu deliveries lost, %llu mappings lost, %llu files changed, %llu children missed",
	    losses.lost_user, spaces_lost(), dso_changed(), losses.lost_children);
	if (losses.lost_samples || losses.lost_user || losses.lost_stacks)
		say("make --ring-size or --tasks larger to lose less");
	if (losses.lost_children)
		say("make --tasks larger to follow all children");
	if (symbols_hidden())
		say("kernel functions have no names without addresses in /proc/kallsyms");
}

/* Each mapped file may take a file descriptor. */
static void raise_limits(void)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_NOFILE, &limit)) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

int main(int argc, char **argv)
{
	FILE *out = stdout;

	parse_args(argc, argv);
	check_namespace();
	open_pids();
	if (args.output) {
		out = fopen(args.output, "we");
		if (!out)
			die(STATUS_FAILED, "cannot write '%s': %s", args.output, strerror(errno));
	}
	if (args.command)
		command_prepare(args.command);
	raise_limits();
	session_load(&args.settings);
	add_targets();
	take_samples();
	write_reports(out);
	show_losses();
	if (args.command)
		command_wait();
	return 0;
}
