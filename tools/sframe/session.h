/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sections for all files that a profiler sees. A cache keeps converted sections by build-id;
 * a session registers them with the kernel for as long as it lasts.
 */
#ifndef _SFRAME_SESSION_H
#define _SFRAME_SESSION_H

#include <linux/types.h>
#include <linux/unwind_sframe.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

#include "deputies.h"
#include "server.h"

/* write.c: writing files */

/* Size of the name of an incomplete file. */
#define TEMP_SIZE	32

int temp_create(int dir, const char *prefix, char *name);
int file_sync(int fd);

/* pass.c: messages with descriptors */

int pass_send(int socket, void *bytes, size_t size, int fd);
int pass_receive(int socket, void *bytes, size_t size, int *fd, bool *cut);
ssize_t pass_receive_any(int socket, void *bytes, size_t max, int *fd, bool *cut, int flags);

/* cache.c: sections by build-id, in files */

/**
 * struct build_id - identifies a file, wherever it is
 * @size:	bytes of @bytes, 0 if there is none
 * @bytes:	the build-id
 */
struct build_id {
	u32	size;
	u8	bytes[UNWIND_SFRAME_BUILD_ID_MAX];
};

/* The cache names directories by the first byte, and files by the rest. */
#define BUILD_ID_MIN	2

char *write_hex(char *to, const u8 *bytes, u32 nr);
int copy_file(int to, int from);
/* "ab/cdef...", with an optional suffix. */
#define CACHE_NAME_SIZE	(2 * UNWIND_SFRAME_BUILD_ID_MAX + 16)

/**
 * struct cache_entry - a section that is being put into the cache
 * @section:	the section, a file open for reading
 * @fd:		the same file, open for writing
 * @dir:	directory of the entry
 * @name:	final name, which starts with the name of @dir
 * @temp:	temporary name in @dir
 */
struct cache_entry {
	int	section;
	int	fd;
	int	dir;
	char	name[CACHE_NAME_SIZE];
	char	temp[TEMP_SIZE];
};

/* How many sections the cache keeps. */
#ifndef KEPT_MAX
#define KEPT_MAX	2048
#endif

int cache_open(const char *dir, bool make);
const char *cache_dir(const char *dir, char *path);
const char *cache_why(int error);
int cache_find(int cache, const struct build_id *id, bool read_only);
int cache_begin(struct cache_entry *entry, int cache, const struct build_id *id, int from,
		bool alone);
void cache_set_lost(const struct cache_entry *entry, u64 bytes);
u64 cache_lost(int section);
int cache_end(struct cache_entry *entry, bool keep);
unsigned int cache_each(int cache, bool read_only, unsigned int max,
			int (*found)(void *data, const struct build_id *id, int fd), void *data);
void cache_prune(int cache);
void cache_remove(int cache, const struct build_id *id);

/* identify.c: files as the kernel sees them */

int file_build_id(int fd, struct build_id *id, bool *has_sframe, char *message);

/* device.c: the kernel's interface */

int device_look(void);
int device_open(void);
int device_may_become(const struct user *user);
int device_become(const struct user *user);
int device_open_for(bool ours);
bool device_is_off(void);
unsigned int device_max(void);
bool device_is_for_all(void);
bool device_needs_copy(int fd);
int device_add(int device, const struct build_id *id, int section, size_t *room);
FILE *device_info(int device);

/* watch.c: mappings of tasks */

/**
 * struct mapping - an executable mapping of a file
 * @pid:	the process that has mapped it
 * @path:	name of the file in that process
 * @file:	its device, inode and name, as in /proc; NULL if unknown
 * @start:	its first address
 * @end:	the first address after it
 * @id:	its build-id, if known
 */
struct mapping {
	pid_t		pid;
	const char	*path;
	const char	*file;
	u64		start;
	u64		end;
	struct build_id	id;
};

typedef void (*watch_fn)(void *data, const struct mapping *mapping);

struct watch;

struct watch *watch_new(const pid_t *pids, unsigned int nr_pids, int max_fd);
void watch_free(struct watch *watch);
unsigned int watch_nr(const struct watch *watch);
int watch_fd(const struct watch *watch, unsigned int nr);
void watch_end(struct watch *watch, unsigned int nr);
bool watch_has_ended(const struct watch *watch);
bool watch_is_partial(struct watch *watch);
int watch_timeout(const struct watch *watch);
bool watch_read(struct watch *watch, watch_fn found, void *data);

/* scan.c: existing mappings */

/* Is this the name of a file? The last one is that of anonymous memory which is shared. */
static inline bool names_file(const char *path)
{
	return path[0] == '/' && path[1] != '/' && strcmp(path, "/dev/zero (deleted)");
}

/**
 * struct round - processes to scan, in a circle by pid
 * @after:	start with the processes after this one, or 0
 * @until:	stop after this one; if it is @after, scan all
 * @rest:	there was no time for some: these begin after @after now
 * @waited:	total time that finding files has taken by waiting for them, in ms
 */
struct round {
	pid_t		after;
	pid_t		until;
	bool		rest;
	unsigned int	waited;
};

bool scan_processes(const pid_t *pids, unsigned int nr_pids, bool children, struct round *round,
		    watch_fn found, void *data);
pid_t scan_deaf(void);

/* needed.c: files that a program needs */

bool needed_files(const char *program, watch_fn found, void *data);

/* blocked.c: processes that wait for files of others */

/* Poll interval, in ms. */
#define TICK		100

/* How long a conversion may be blocked, and opening a file may take, in ms. */
#ifndef BLOCKED_MAX
#define BLOCKED_MAX	100000
#endif
#define OPEN_BLOCKED_MAX (BLOCKED_MAX / 10)

/* A process that makes progress now and then may wait this many times longer. */
#define WAITED_TIMES	3

/* CPU time to open a file, in s: some thousand times what real files need. */
#define OPEN_SECONDS	((OPEN_BLOCKED_MAX + 999) / 1000)

/**
 * struct blocked - how long a process was blocked
 * @pid:	the process
 * @cpu:	its CPU time at the last tick, in ns
 * @tick:	time of the last tick, in ms
 * @ms:		sum of the ticks in which it was blocked, in ms
 * @row:	the same since it last made progress, in ms
 * @waited:	sum of the ticks in which it waited at all, in ms
 */
struct blocked {
	pid_t		pid;
	u64		cpu;
	long		tick;
	unsigned int	ms;
	unsigned int	row;
	unsigned int	waited;
};

/* Limit of file-opening processes that were killed and have not ended yet. */
#ifndef STUCK_MAX
#define STUCK_MAX	32
#endif

uid_t process_uid(pid_t pid);
int child_begin(int fd, pid_t parent);
void stuck_kill(pid_t pid, uid_t uid);
void stuck_add(pid_t pid, uid_t uid);
void stuck_reap(void);
unsigned int stuck_nr(void);
bool stuck_has_room(uid_t uid);
bool is_scarce(int error);
long now_ms(void);
void blocked_begin(struct blocked *blocked, pid_t pid);
void blocked_count(struct blocked *blocked, char state, u64 cpu);
void blocked_look(struct blocked *blocked);
unsigned int strikes_left(unsigned int strikes, long since);
unsigned int strikes_more(unsigned int strikes);
unsigned int blocked_patience(unsigned int strikes);
bool blocked_wait(struct blocked *blocked, int fd, unsigned int max, unsigned int all);

/* owner.c: owners of files */

const char *owner_doubt(int fd, bool *alone);

/* users.c: users of processes */

bool user_of_process(pid_t pid, struct user *user);
bool is_first_namespace(void);
bool is_elsewhere(pid_t pid);
bool user_of_mapping(pid_t pid, unsigned long start, unsigned long end, int fd,
		     struct user *user);

/* Limit of files for which a deputy waits: these are open. */
#define WAITING_MAX	64

/**
 * struct waiting - in a deputy, a file to try again
 * @fd:		its O_PATH descriptor
 * @since:	when it came, in ms
 * @patience:	how long it hung, in ms; 0 if something is short
 * @order:	what ours has told of it
 */
struct waiting {
	int		fd;
	long		since;
	unsigned int	patience;
	struct order	*order;
};

/* mapped.c: files of mappings */

/**
 * enum believe - which files to trust
 * @BELIEVE_ALL:	all files
 * @BELIEVE_USERS:	files of others only through the deputies of users that map them
 * @BELIEVE_OWN:	no files of others
 */
enum believe {
	BELIEVE_ALL,
	BELIEVE_USERS,
	BELIEVE_OWN,
};

/**
 * struct identity - identifies a file at one point in time
 * @dev:	its device
 * @ino:	its inode, 0 if unknown
 * @mtime:	its modification time
 */
struct identity {
	dev_t		dev;
	ino_t		ino;
	struct timespec	mtime;
};

/* Total time that opening files may wait until the command runs, in ms. */
#define START_WAITS_MAX	OPEN_BLOCKED_MAX

/* The same for each later batch of mappings. */
#define WAITS_MAX	(2 * OPEN_BLOCKED_MAX)

/* Is all known about this file of a mapping, so that it need not be opened? */
typedef bool (*mapped_known_fn)(void *data, const struct mapping *mapping,
				const struct identity *identity);

/**
 * struct mapped - a process that opens files
 * @known:	called for each file found
 * @data:	for @known
 * @pid:	the process, 0 if none
 * @uid:	user whose file it opens
 * @socket:	connection to it
 * @hangs:	it does not answer
 * @slow:	it hangs because its short waits add up to too much
 * @max:	how long it may hang, in ms
 * @strikes:	recent hangs
 * @struck:	time of the last hang, in ms
 * @budget:	time that files may still wait in total, in ms
 * @spent:	time not yet taken from @budget, less than 1 ms, in us
 * @max_fd:	descriptors from this one on are not for files
 */
struct mapped {
	mapped_known_fn	known;
	void		*data;
	pid_t		pid;
	uid_t		uid;
	int		socket;
	bool		hangs;
	bool		slow;
	unsigned int	max;
	unsigned int	strikes;
	long		struck;
	unsigned int	budget;
	unsigned int	spent;
	int		max_fd;
};

/**
 * struct mapped_file - the file of a mapping
 * @fd:		O_PATH descriptor to reopen for reading, -1 if none
 * @error:	why there is no @fd, a negative errno
 * @identity:	of the file, or of the rejected one
 * @asks:	this message asks whether @identity is known
 * @id:		its build-id
 * @has_sframe:	the file has an SFrame section of its own
 * @own:	later sessions may trust a section made of it
 * @alone:	but only for the user's own tasks
 * @user:	whose tasks it is for: if it is not for all, nothing of its contents is known
 * @unclaimed:	no @fd, because it is only for users that map it, and none is known
 * @since:	when its mapping was found, in ms, or 0 for now
 * @again:	a later attempt may succeed
 * @stuck:	retry when one of the hung processes has ended
 * @patience:	how long it was waited for, if it hangs, in ms
 * @waited:	how long the opening process waited, in us; may be slightly negative
 * @message:	why there is no @fd
 */
struct mapped_file {
	int		fd;
	int		error;
	struct identity	identity;
	bool		asks;
	struct build_id	id;
	bool		has_sframe;
	bool		own;
	bool		alone;
	struct user	user;
	bool		unclaimed;
	long		since;
	bool		again;
	bool		stuck;
	unsigned int	patience;
	s64		waited;
	char		message[SFRAME_MESSAGE];
};

int file_reopen(int fd, int flags);
int open_place(int place);
unsigned int mapped_patience(const struct mapped *mapped);
void mapped_spend(struct mapped *mapped, unsigned int ms);
int mapped_open(struct mapped *mapped, const struct mapping *mapping, enum believe believe,
		struct mapped_file *file);
int mapped_end(struct mapped *mapped);

/* reader.c: contents of files of others */

int reader_read(int file, const struct build_id *known, unsigned int patience,
		struct mapped_file *result);

/* book.c: files seen */

/* Limit of known files. */
#ifndef FILES_MAX
#define FILES_MAX	16384
#endif

/* Limit of the bytes of sections that are in memory, and not in a file of the cache. */
#ifndef MEMORY_MAX
#define MEMORY_MAX	(1UL << 30)
#endif

/* The section was not there before the end. */
#define LATE_TOO_LATE	-1

/**
 * struct dso - a file seen by the session
 * @id:		its build-id; size 0 if none
 * @identity:	which file it is
 * @key:	its key among the rejected files, NULL if it is not rejected
 * @path:	its name, NULL if only the cache knows it
 * @why:	why it has no section, NULL if it has or needs none
 * @own:	later sessions may trust a section made of it
 * @alone:	but only for the user's own tasks
 * @again:	retry when it is mapped the next time
 * @unserved:	a user who has it mapped and had no deputy; ALL_USERS if there was none
 * @denied:	the kernel had no room for its section
 * @patience:	with @again, but only if the retry may wait longer than this, in ms
 * @busy:	it is queued for conversion or being converted
 * @others:	other files with the same build-id were seen meanwhile
 * @turn:	its number among all conversions requested
 * @tried:	turns in which it could not be opened
 * @since:	when it was mapped, if it was not known before, or when its section was refused, in
 *		ms
 * @late:	how long it then had no section, in ms, or LATE_TOO_LATE
 * @lost:	bytes of code that .eh_frame describes but its section does not
 * @unused:	why the kernel has not used its section in some stacks, NULL if it has
 * @file:	its O_PATH descriptor, until it is converted
 * @next:	next one in the queue, or next rejected one, or next one in book_denied()
 * @before:	pointer that points to it, if it is rejected
 */
struct dso {
	struct build_id	id;
	struct identity	identity;
	char		*key;
	char		*path;
	char		*why;
	bool		own;
	bool		alone;
	bool		again;
	struct user	unserved;
	bool		denied;
	unsigned int	patience;
	bool		busy;
	bool		others;
	unsigned long	turn;
	unsigned int	tried;
	long		since;
	long		late;
	u64		lost;
	const char	*unused;
	int		file;
	struct dso	*next;
	struct dso	**before;
};

/**
 * struct book - files seen by the session
 * @dsos:	files by build-id, except rejected ones
 * @refused:	rejected files, by @key
 * @oldest:	list of the rejected files, oldest first
 * @end:	end of that list
 * @places:	rejected entries for names, because the file was never identified
 * @files:	files examined, by device, inode and name
 * @nr_dsos:	entries in @dsos and @refused
 * @nr_files:	entries in @files
 * @forgot:	some rejected files were dropped to make room
 */
struct book {
	void		*dsos;
	void		*refused;
	struct dso	*oldest;
	struct dso	**end;
	unsigned int	places;
	void		*files;
	unsigned int	nr_dsos;
	unsigned int	nr_files;
	bool		forgot;
};

void book_init(struct book *book);
bool book_is_full(const struct book *book);
struct dso *book_find(const struct book *book, const struct build_id *id);
struct dso *book_find_refused(const struct book *book, const struct identity *identity);
struct dso *book_find_place(const struct book *book, const struct mapping *mapping);
void book_answers(struct book *book, const struct mapping *mapping);
struct dso *book_add(struct book *book, const struct build_id *id, const char *path);
struct dso *book_add_refused(struct book *book, const struct mapping *mapping,
			     const struct mapped_file *file);
bool book_refuse(struct book *book, struct dso *dso);
void book_found(struct book *book, const struct mapping *mapping);
void book_accept(struct book *book, const struct identity *identity);
void book_see(struct book *book, const char *file);
bool book_has_seen(const struct book *book, const char *file);
struct dso *book_denied(const struct book *book);
void book_missed(const struct book *book, sframe_missed_fn missed, void *data);
void book_free(struct book *book);

/* confine.c: processes that only parse a file */

bool confine(void);

/* jobs.c: conversions, each in a separate process */

/**
 * struct job - a process that converts a file
 * @pid:	the process
 * @pidfd:	to wait for @pid
 * @output:	file that receives the section
 * @message:	error message in memory shared with @pid, SFRAME_MESSAGE bytes
 * @again:	a retry may succeed, because too many files were open
 * @lost:	bytes of code that .eh_frame describes but the section does not
 * @cpu:	CPU time that it took, in ms
 */
struct job {
	pid_t	pid;
	int	pidfd;
	int	output;
	char	*message;
	bool	again;
	u64	lost;
	unsigned int cpu;
};

#define JOBS_MAX	64

/**
 * struct running - a running conversion
 * @job:	the process
 * @dso:	the file; no longer valid if @killed
 * @blocked:	how long it was blocked
 * @killed:	it was blocked for too long; do not wait for it
 */
struct running {
	struct job	job;
	struct dso	*dso;
	struct blocked	blocked;
	bool		killed;
};

/**
 * struct jobs - running and queued conversions
 * @queue:	dsos that wait to be converted
 * @end:	end of @queue
 * @waiting:	number of dsos in @queue
 * @turns:	conversions requested so far
 * @running:	running conversions
 * @nr:		number of @running
 * @nr_killed:	how many of @running were killed
 * @max:	how many may run, not counting killed ones
 * @held:	why the first dso of @queue cannot start yet, an errno; or 0
 * @cpu:	CPU time of the conversions that have ended, in ms
 * @cpu_max:	after this much, none starts; or 0
 */
struct jobs {
	struct dso	*queue;
	struct dso	**end;
	unsigned int	waiting;
	unsigned long	turns;
	struct running	running[JOBS_MAX];
	unsigned int	nr;
	unsigned int	nr_killed;
	unsigned int	max;
	int		held;
	unsigned int	cpu;
	unsigned int	cpu_max;
};

/* CPU time of a conversion, in s: some fifty times what the largest files take. */
#define JOB_SECONDS	100

void job_limit_cpu(unsigned int seconds);
void job_close_others(int one, int other);
void job_be_first_to_die(void);
int job_start(struct job *job, int file, const struct timespec *mtime);
int job_end(struct job *job, char *message);
void jobs_init(struct jobs *jobs);
void jobs_queue(struct jobs *jobs, struct dso *dso);
struct dso *jobs_start(struct jobs *jobs, int *error);
struct dso *jobs_kill_blocked(struct jobs *jobs, bool *hangs);
struct dso *jobs_end(struct jobs *jobs, unsigned int nr, int *section, bool *again,
		     char *message);
unsigned int jobs_going(const struct jobs *jobs);
bool jobs_are_done(const struct jobs *jobs, unsigned long last, unsigned int row);
void jobs_each(struct jobs *jobs, void (*fn)(struct dso *dso, long data), long data);
void jobs_drop(struct jobs *jobs, bool (*drops)(void *data, struct dso *dso, bool hangs),
	       void *data);
void jobs_free(struct jobs *jobs);

/* server.c: messages; server.h declares the rest */

void __attribute__((format(printf, 1, 0))) say_line(const char *format, va_list args);

/* session.c: the session itself */

/* Rescans, and further attempts to register sections, take at most a tenth of the time. */
#define REPEAT_SHARE	10

/**
 * struct told - what the user was told, once
 * @full:	further files get no section
 * @forgot:	the list is incomplete
 * @stuck:	no more files are opened
 * @deaf:	the mappings of a process take too long to read
 * @unread:	those of all processes do
 * @apart:	some tasks cannot use the sections; or all can, and this is not told
 * @unkept:	some sections are not put into the cache
 */
struct told {
	bool	full;
	bool	forgot;
	bool	stuck;
	bool	deaf;
	bool	unread;
	bool	apart;
	bool	unkept;
};

/**
 * struct session - see session.c
 * @options:	what the session covers
 * @device:	the kernel's device, open
 * @deputies:	processes for the files of other users
 * @socket:	in a deputy, the connection to the session that it works for; otherwise -1
 * @shared:	in a deputy, @began of that session, in shared memory
 * @waiting:	in a deputy, files to try again
 * @nr_waiting:	number of @waiting
 * @cache:	the cache, -1 if none
 * @watch:	watched tasks
 * @book:	files seen
 * @jobs:	conversions
 * @mapped:	the process that opens files
 * @told:	what the user was told
 * @by_user:	the latest file is known, but only to the deputy of one user
 * @last:	process whose file was examined last, or 0
 * @waits:	some files wait for hung processes to end
 * @lost:	events were lost, or there are none, so a rescan is needed
 * @hung:	shortest time that a file to retry has hung, in ms; or 0
 * @rescan:	earliest time of the next rescan, in ms
 * @offer:	when to offer denied sections again, in ms; 0 if there are none
 * @round:	where a rescan starts and ends: after a process whose file ran out of time
 * @for_all:	sections are used for tasks of others
 * @began:	when the start was over, in ms, or 0: files seen from then on are late
 * @over:	watching is over as well
 * @ended:	conversions that have ended
 * @sections:	sections registered with the kernel
 * @converted:	sections converted by this session
 * @cached:	sections from the cache that are not known to be needed
 * @cached_max:	how many of them to register at most
 * @kept:	sections in the cache at the start
 * @room:	bytes of sections that may still be in memory, and not in a file of the cache
 */
struct session {
	struct sframe_session_options	options;
	int				device;
	struct deputies			deputies;
	int				socket;
	const long			*shared;
	struct waiting			waiting[WAITING_MAX];
	unsigned int			nr_waiting;
	int				cache;
	struct watch			*watch;
	struct book			book;
	struct jobs			jobs;
	struct mapped			mapped;
	struct told			told;
	bool				by_user;
	pid_t				last;
	bool				waits;
	bool				lost;
	unsigned int			hung;
	long				rescan;
	long				offer;
	struct round			round;
	bool				for_all;
	long				began;
	bool				over;
	unsigned int			ended;
	unsigned int			sections;
	unsigned int			converted;
	unsigned int			cached;
	unsigned int			cached_max;
	unsigned int			kept;
	size_t				room;
};

void session_found(void *data, const struct mapping *mapping);
void session_look(struct session *session, const struct mapping *mapping,
		  struct mapped_file *file, int section);
bool session_knows_file(void *data, const struct mapping *mapping,
			const struct identity *identity);
void session_hung(struct session *session, unsigned int patience);
bool dso_is_other(const struct dso *known, const struct identity *identity);
void session_scan(struct session *session, bool children);
bool session_step(struct session *session, struct pollfd until, int timeout);
void session_convert(struct session *session, int fd);
void session_begin(struct session *session, long began);
void session_end(struct session *session);
void session_run(struct session *session, int fd);
void session_missed(struct session *session, sframe_missed_fn missed, void *data);
void session_prune(const struct session *session);
void session_free(struct session *session);

/* offer.c: sections for the kernel */

void __attribute__((format(printf, 3, 4)))
dso_lose(struct session *session, struct dso *dso, const char *format, ...);
void dso_refuse(struct session *session, struct dso *dso);
void dso_keep(struct dso *dso);
bool session_may_remove(const struct session *session, int error);
int session_cached(const struct session *session, const struct build_id *id);
bool dso_add(struct session *session, struct dso *dso, int section);
bool session_keeps(const struct session *session, const struct dso *dso);
void session_keep(struct session *session, struct dso *dso, int section);
void session_offer(struct session *session);
void session_ask(struct session *session);

/* deputy.c */

void deputy_begin(struct session *session);
void deputy_scan(struct session *session);
void deputy_say(const struct session *session, const char *format, va_list args);

/* say.c: what a session tells the user */

void __attribute__((format(printf, 2, 3)))
session_say(const struct session *session, const char *format, ...);
void session_full(struct session *session);
void session_forgot(struct session *session);
void session_stuck(struct session *session);
void session_scanned(struct session *session);
void session_apart(struct session *session, pid_t pid);
void session_unkept(struct session *session, int error);
void session_progress(const struct session *session, unsigned int done, bool first);
void session_summary(const struct session *session);

/* start.c: starting a session */

struct session *session_new(const struct sframe_session_options *options, char *message);
struct session *session_new_deputy(int device, int socket, const long *began, bool verbose);

#endif /* _SFRAME_SESSION_H */
