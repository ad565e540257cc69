// SPDX-License-Identifier: GPL-2.0
/*
 * PID 1 of the test VM: static, no shell needed before the command starts.
 *
 * It gives the guest its own writable root, in which the host's programs run
 * from their own paths, starts the command that the harness put into the
 * initramfs, and reports on a private virtio port. If anything fails, init
 * stops writing to that port, and the harness treats the missing lines as a
 * failure.
 *
 *	ready			the guest is set up
 *	exit N | signal N	how the command ended
 *	leak			kmemleak found leaks; the kernel log has the details
 *	end			everything was done
 *
 * The initramfs holds /job/cmd (for sh -c), /job/env (NAME=value lines) and,
 * by their presence, /job/shell (interactive) and /job/leak (kmemleak check).
 */

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest.h"

#define MSIZE		"msize=512000"
#define KMEMLEAK	"/sys/kernel/debug/kmemleak"
/* kmemleak reports no object younger than five seconds. */
#define LEAK_AGE	6

static int status_fd = -1;

static __noreturn void power_off(void)
{
	sync();
	reboot(RB_AUTOBOOT);
	for (;;)
		pause();
}

static __noreturn void __printf(1, 2) die(const char *fmt, ...)
{
	int err = errno;
	va_list ap;

	fputs("init: ", stdout);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf(": %s\n", strerror(err));
	fflush(stdout);
	power_off();
}

static void __printf(1, 2) report(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (vdprintf(status_fd, fmt, ap) < 0)
		die("status port");
	va_end(ap);
}

static void make_dir(const char *path)
{
	if (mkdir(path, 0755) && errno != EEXIST)
		die("mkdir %s", path);
}

static void do_mount(const char *what, const char *where, const char *type,
		     unsigned long flags, const char *data)
{
	make_dir(where);
	if (mount(what, where, type, flags, data))
		die("mount %s", where);
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	if (fd < 0)
		die("open %s", path);
	if (write(fd, text, strlen(text)) < 0)
		die("write %s", path);
	close(fd);
}

/* The contents of a file, or NULL. */
static char *read_file(const char *path)
{
	size_t len = 0, size = 0;
	char *text = NULL;
	FILE *f = fopen(path, "r");

	if (!f)
		return NULL;
	do {
		size += 65536;
		text = realloc(text, size + 1);
		if (!text)
			die("realloc");
		len += fread(text + len, 1, size - len, f);
	} while (len == size);
	text[len] = '\0';
	fclose(f);
	return text;
}

/* Open the virtio serial port that QEMU calls @name. */
static int open_port(const char *name)
{
	char path[300], want[64];
	struct dirent *entry;
	DIR *dir;

	dir = opendir("/sys/class/virtio-ports");
	if (!dir)
		die("no virtio ports");
	snprintf(want, sizeof(want), "%s\n", name);
	while ((entry = readdir(dir))) {
		char *found;
		int fd;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/sys/class/virtio-ports/%s/name",
			 entry->d_name);
		found = read_file(path);
		if (!found || strcmp(found, want))
			continue;
		snprintf(path, sizeof(path), "/dev/%s", entry->d_name);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			die("open %s", path);
		closedir(dir);
		return fd;
	}
	die("no virtio port %s", name);
}

/* Set up the first mounts and the console: init's messages go to the kernel log. */
static void setup_console(void)
{
	int fd;

	do_mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	fd = open("/dev/console", O_RDWR);
	if (fd < 0)
		power_off();
	dup2(fd, 0);
	dup2(fd, 1);
	dup2(fd, 2);
	setvbuf(stdout, NULL, _IOLBF, 0);
	do_mount("proc", "/proc", "proc", 0, NULL);
	do_mount("sysfs", "/sys", "sysfs", 0, NULL);
}

/* The guest has its own version of these directories of the root. */
static bool is_guests_own(const char *name)
{
	static const char * const own[] = {
		".", "..", "dev", "proc", "sys", "run", "tmp", "etc", "var",
		"root", "host", "out", "lost+found",
	};

	for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
		if (!strcmp(name, own[i]))
			return true;
	}
	return false;
}

/*
 * Show each of the host's other directories at its own path, by bind mount, so
 * that the names of mapped files are the same here and on the host.
 */
static void bind_hosts_root(void)
{
	char from[300], to[300], target[300];
	struct dirent *entry;
	DIR *dir = opendir("/new/host");
	struct stat st;
	ssize_t len;

	if (!dir)
		die("/host");
	while ((entry = readdir(dir))) {
		if (is_guests_own(entry->d_name))
			continue;
		snprintf(from, sizeof(from), "/new/host/%s", entry->d_name);
		snprintf(to, sizeof(to), "/new/%s", entry->d_name);
		if (lstat(from, &st))
			continue;
		if (S_ISLNK(st.st_mode)) {
			len = readlink(from, target, sizeof(target) - 1);
			target[len < 0 ? 0 : len] = '\0';
			if (symlink(target, to))
				die("symlink %s", to);
		} else if (S_ISDIR(st.st_mode)) {
			make_dir(to);
			if (mount(from, to, NULL, MS_BIND, NULL))
				die("bind %s", to);
		}
	}
	closedir(dir);
}

/* Link the entries of the host's /etc one by one: a test can replace one. */
static void link_hosts_etc(void)
{
	char from[300], to[300];
	struct dirent *entry;
	DIR *dir;

	make_dir("/new/etc");
	dir = opendir("/new/host/etc");
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || !strcmp(entry->d_name, "mtab") ||
		    !strcmp(entry->d_name, "hostname"))
			continue;
		snprintf(from, sizeof(from), "/host/etc/%s", entry->d_name);
		snprintf(to, sizeof(to), "/new/etc/%s", entry->d_name);
		if (symlink(from, to))
			die("symlink %s", to);
	}
	if (dir)
		closedir(dir);
	write_file("/new/etc/hostname", "unwind\n");
	if (symlink("/proc/self/mounts", "/new/etc/mtab"))
		die("symlink mtab");
}

static void mount_kernel_filesystems(void)
{
	do_mount("proc", "/proc", "proc", 0, NULL);
	do_mount("sysfs", "/sys", "sysfs", 0, NULL);
	do_mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	do_mount("devpts", "/dev/pts", "devpts", 0, "ptmxmode=0666");
	do_mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777");
	do_mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
	do_mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, NULL);
	do_mount("bpf", "/sys/fs/bpf", "bpf", 0, NULL);
	do_mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, NULL);
	symlink("/proc/self/fd", "/dev/fd");
	symlink("/proc/self/fd/0", "/dev/stdin");
	symlink("/proc/self/fd/1", "/dev/stdout");
	symlink("/proc/self/fd/2", "/dev/stderr");
}

/* chroot /host sees the same kernel file systems and a writable /tmp. */
static void mount_into_host(void)
{
	static const char * const shared[] = { "proc", "sys", "dev", "tmp", "run" };
	char from[32], to[32];

	for (size_t i = 0; i < ARRAY_SIZE(shared); i++) {
		snprintf(from, sizeof(from), "/%s", shared[i]);
		snprintf(to, sizeof(to), "/host/%s", shared[i]);
		if (mount(from, to, NULL, MS_BIND | MS_REC, NULL) &&
		    errno != ENOENT)
			die("bind %s", to);
	}
}

static void read_env(void)
{
	char *text = read_file("/job/env"), *line;

	for (line = text ? strtok(text, "\n") : NULL; line; line = strtok(NULL, "\n")) {
		if (putenv(line))
			die("putenv");
	}
}

/*
 * Mount the repository at its own path even if that is below /tmp or /root. Call
 * this before mount_into_host(), which hides the host's /tmp.
 */
static void bind_repository(void)
{
	char path[300], from[310];
	const char *top = getenv("UNWIND_TOP");

	if (!top || !access(top, F_OK))
		return;
	snprintf(path, sizeof(path), "%s", top);
	for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		make_dir(path);
		*slash = '/';
	}
	make_dir(path);
	snprintf(from, sizeof(from), "/host%s", path);
	if (mount(from, path, NULL, MS_BIND, NULL))
		die("bind %s", path);
}

/* Use a root on tmpfs: pivot_root and umount do not work in the initramfs. */
static void setup_root(void)
{
	do_mount("root", "/new", "tmpfs", 0, "mode=755,size=50%");
	do_mount("host", "/new/host", "9p", MS_RDONLY,
		 "trans=virtio,version=9p2000.L,cache=loose," MSIZE);
	do_mount("out", "/new/out", "9p", 0,
		 "trans=virtio,version=9p2000.L,cache=mmap," MSIZE);
	bind_hosts_root();
	link_hosts_etc();
	make_dir("/new/job");
	if (mount("/job", "/new/job", NULL, MS_BIND, NULL))
		die("bind /job");
	if (chdir("/new") || mount(".", "/", NULL, MS_MOVE, NULL) ||
	    chroot(".") || chdir("/"))
		die("switch root");
	make_dir("/root");
	make_dir("/run");
	make_dir("/tmp");
	chmod("/tmp", 01777);
	make_dir("/var");
	if (symlink("/tmp", "/var/tmp") || symlink("/run", "/var/run") ||
	    symlink("/host/var/lib", "/var/lib"))
		die("symlink /var");
	mount_kernel_filesystems();
	do_mount("tmpfs", "/run", "tmpfs", 0, "mode=755");
	do_mount("tmpfs", "/tmp", "tmpfs", 0, "mode=1777,size=50%");
	read_env();
	bind_repository();
	mount_into_host();
}

/* The kernel booted with one CPU, see vm.sh, which also sets the number of CPUs. */
static void start_other_cpus(void)
{
	const char *text = getenv("VM_CPUS");
	int cpus = text ? atoi(text) : 0;
	char path[64];

	for (int cpu = 1; cpu < cpus; cpu++) {
		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
		if (!access(path, F_OK))
			write_file(path, "1");
	}
	errno = ENODEV;
	if (sysconf(_SC_NPROCESSORS_ONLN) != cpus)
		die("not %d CPUs", cpus);
}

static void setup_system(void)
{
	struct ifreq ifr = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct rlimit core = { .rlim_cur = 0, .rlim_max = RLIM_INFINITY };

	if (sethostname("unwind", 6))
		die("sethostname");
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &ifr))
		die("lo up");
	close(fd);
	setrlimit(RLIMIT_CORE, &core);
	/* Otherwise perf throttles sampling on a slow emulated CPU. */
	write_file("/proc/sys/kernel/perf_event_max_sample_rate", "100000");
	write_file("/proc/sys/kernel/perf_cpu_time_max_percent", "0");
	write_file("/proc/sys/kernel/perf_event_paranoid", "-1");
	write_file("/proc/sys/kernel/kptr_restrict", "0");
	if (swapon("/dev/vda", 0))
		die("swapon /dev/vda");
	start_other_cpus();
}

/* In the child: set up stdin, stdout and stderr, then run the command. */
static __noreturn void run_command(bool shell, int pipe_end)
{
	static char * const login[] = { "bash", "-l", NULL };
	char *cmd = read_file("/job/cmd");
	int in, out;

	setsid();
	if (shell) {
		struct winsize size = {};
		char *text = read_file("/job/size");

		in = open("/dev/hvc0", O_RDWR);
		out = in;
		ioctl(in, TIOCSCTTY, 0);
		if (text && sscanf(text, "%hu %hu", &size.ws_row, &size.ws_col) == 2)
			ioctl(in, TIOCSWINSZ, &size);
	} else {
		in = open("/dev/null", O_RDONLY);
		out = pipe_end;
	}
	if (in < 0 || out < 0)
		die("open the command's output");
	dup2(in, 0);
	dup2(out, 1);
	dup2(out, 2);
	if (chdir("/root"))
		die("chdir");
	if (shell)
		execvp(login[0], login);
	else
		execl("/bin/sh", "sh", "-c", cmd, NULL);
	die("exec");
}

/* Copy the contents of the pipe to the port. */
static void relay(int from, int to)
{
	char buffer[65536];
	ssize_t len;

	while ((len = read(from, buffer, sizeof(buffer))) > 0) {
		for (ssize_t done = 0, n; done < len; done += n) {
			n = write(to, buffer + done, len - done);
			if (n < 0)
				die("output port");
		}
	}
}

/*
 * Wait for the command, and reap orphans meanwhile. The output of the command
 * goes through a pipe, because a port can be opened only once and programs open
 * /dev/stdout. Later output of a daemon that the command left is lost.
 */
static int wait_for(pid_t child, int from, int to)
{
	struct pollfd poll_from = { .fd = from, .events = POLLIN };
	int status;
	pid_t pid;

	do {
		poll(&poll_from, 1, 20);
		relay(from, to);
		pid = waitpid(-1, &status, WNOHANG);
		if (pid < 0)
			die("wait");
	} while (pid != child);
	relay(from, to);
	return status;
}

static void kmemleak_command(const char *text)
{
	int fd = open(KMEMLEAK, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		die("kmemleak %s", text);
	close(fd);
}

/* Return true if kmemleak found leaks, and print them to the log. */
static bool find_leaks(void)
{
	char *found;

	sleep(LEAK_AGE);
	kmemleak_command("scan");
	kmemleak_command("scan");
	found = read_file(KMEMLEAK);
	if (!found)
		die("read kmemleak");
	if (found[0])
		printf("%s\n", found);
	return found[0];
}

int main(void)
{
	bool shell, leak;
	int status, out, pipe_fd[2];
	pid_t child;

	setup_console();
	status_fd = open_port("status");
	setup_root();
	setup_system();
	shell = !access("/job/shell", F_OK);
	leak = !access("/job/leak", F_OK);
	if (leak)
		kmemleak_command("clear");
	if (pipe2(pipe_fd, O_CLOEXEC) || fcntl(pipe_fd[0], F_SETFL, O_NONBLOCK))
		die("pipe");
	out = shell ? STDOUT_FILENO : open_port("out");
	report("ready\n");

	child = fork();
	if (child < 0)
		die("fork");
	if (!child)
		run_command(shell, pipe_fd[1]);
	status = wait_for(child, pipe_fd[0], out);
	if (WIFEXITED(status))
		report("exit %d\n", WEXITSTATUS(status));
	else
		report("signal %d\n", WTERMSIG(status));
	if (leak && find_leaks())
		report("leak\n");
	report("end\n");
	power_off();
}
