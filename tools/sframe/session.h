/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sections for all that a profiler meets: what is converted once is kept in a cache by
 * build-id, and is handed to the kernel for as long as a session lasts.
 */
#ifndef _SFRAME_SESSION_H
#define _SFRAME_SESSION_H

#include <linux/types.h>
#include <linux/unwind_sframe.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>

#include "server.h"

/* write.c: files that are written */

/* Of the name of a file that is not complete. */
#define TEMP_SIZE	32

int temp_create(int dir, const char *prefix, char *name);
int file_sync(int fd);

/* pass.c: messages with descriptors */

int pass_send(int socket, void *bytes, size_t size, int fd);
int pass_receive(int socket, void *bytes, size_t size, int *fd, bool *cut);

/* cache.c: sections by build-id, in files */

/**
 * struct build_id - what a file is known by, wherever it is
 * @size:	bytes of @bytes, 0 if there is none
 * @bytes:	the build-id
 */
struct build_id {
	u32	size;
	u8	bytes[UNWIND_SFRAME_BUILD_ID_MAX];
};

/* The kernel takes none that is shorter, and the cache has directories by the first byte. */
#define BUILD_ID_MIN	2

int copy_file(int to, int from);
/* "ab/cdef...", with what the name may end with. */
#define CACHE_NAME_SIZE	(2 * UNWIND_SFRAME_BUILD_ID_MAX + 16)

/**
 * struct cache_entry - a section that is on its way into the cache
 * @section:	it, a file that is open for reading
 * @fd:		the same, for writing
 * @dir:	where it is going to be
 * @name:	its name, of which the first part is that of @dir
 * @temp:	the name in @dir that it has until then
 */
struct cache_entry {
	int	section;
	int	fd;
	int	dir;
	char	name[CACHE_NAME_SIZE];
	char	temp[TEMP_SIZE];
};

int cache_open(const char *dir, bool make);
int cache_open_perf(const char *dir, bool make);
int cache_find(int cache, const struct build_id *id, bool read_only);
int cache_begin(struct cache_entry *entry, int cache, const struct build_id *id, int from,
		bool alone);
void cache_set_lost(const struct cache_entry *entry, u64 bytes);
u64 cache_lost(int section);
int cache_end(struct cache_entry *entry, bool keep);
int cache_each(int cache, bool read_only, unsigned int max,
	       int (*found)(void *data, const struct build_id *id, int fd), void *data);
void cache_remove(int cache, const struct build_id *id);
int file_build_id(int fd, struct build_id *id, bool *has_sframe, char *message);

/* device.c: the kernel's interface */

/* The user whose tasks are all there are. */
#define ALL_USERS	((uid_t)-1)

/**
 * struct user - who a section is for
 * @uid:	the user, ALL_USERS if it is for all
 * @gid:	the group
 */
struct user {
	uid_t	uid;
	gid_t	gid;
};

int device_look(void);
int device_open(void);
int device_open_as(const struct user *user);
bool device_is_off(void);
bool device_is_for_all(void);
bool device_needs_copy(int fd);
int device_add(int device, const struct build_id *id, int section);

/* watch.c: what tasks map */

/**
 * struct mapping - a file that a task has mapped executable
 * @pid:	the task's process
 * @path:	the name it has there
 * @file:	its device, inode and name, as /proc has them; NULL if they are not known
 * @id:	its build-id, if that is known
 */
struct mapping {
	pid_t		pid;
	const char	*path;
	const char	*file;
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
bool watch_read(struct watch *watch, watch_fn found, void *data);
bool watch_scan(const pid_t *pids, unsigned int nr_pids, watch_fn found, void *data);
bool watch_rescan(const pid_t *pids, unsigned int nr_pids, pid_t after, watch_fn found,
		  void *data);

/* needed.c: what a program needs */

bool needed_files(const char *program, watch_fn found, void *data);

/* blocked.c: processes that wait for others' files */

/* How often to look, in ms. */
#define TICK		100

/* For how long a conversion may be blocked, and a file may take to be opened, in ms. */
#ifndef BLOCKED_MAX
#define BLOCKED_MAX	100000
#endif
#define OPEN_BLOCKED_MAX (BLOCKED_MAX / 10)

/* What goes on now and then may wait for so many times as long. */
#define WAITED_TIMES	3

/* How much CPU opening a file may take, in s: some thousand times what real ones do. */
#define OPEN_SECONDS	((OPEN_BLOCKED_MAX + 999) / 1000)

/**
 * struct blocked - for how long a process was blocked
 * @pid:	the process
 * @cpu:	what it had used at the last tick, in ns
 * @tick:	when that was, in ms
 * @ms:		the ticks in which it was blocked, in ms
 * @row:	those since it went on last, in ms
 * @waited:	the ticks in which it waited at all, in ms
 */
struct blocked {
	pid_t		pid;
	u64		cpu;
	long		tick;
	unsigned int	ms;
	unsigned int	row;
	unsigned int	waited;
};

/* Killed processes that cannot end yet, of those that open files. */
#ifndef STUCK_MAX
#define STUCK_MAX	32
#endif

uid_t process_uid(pid_t pid);
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

/* owner.c: whose files are */

const char *owner_doubt(int fd, bool *alone);

/* users.c: sections for the tasks of one user */

#define USERS_MAX	8

/**
 * struct users - users for whose tasks alone there are sections
 * @known:	these
 * @devices:	the device for each, or an error of errno.h, negative
 * @nr:		how many
 */
struct users {
	struct user	known[USERS_MAX];
	int		devices[USERS_MAX];
	unsigned int	nr;
};

bool user_of_process(pid_t pid, struct user *user);
bool is_first_namespace(void);
bool is_elsewhere(pid_t pid);
bool user_of_mapping(pid_t pid, int fd, struct user *user);
int users_device(struct users *users, const struct user *user);
const char *users_why(int error);
void users_free(struct users *users);

/* mapped.c: files of mappings */

/**
 * enum believe - which files are good
 * @BELIEVE_ALL:	all are
 * @BELIEVE_USERS:	others' are, for those who have mapped them
 * @BELIEVE_OWN:	others' are not
 */
enum believe {
	BELIEVE_ALL,
	BELIEVE_USERS,
	BELIEVE_OWN,
};

/**
 * struct identity - which file it is, and as of when
 * @dev:	its device
 * @ino:	its inode there, 0 if it is not known
 * @mtime:	when it was written to
 */
struct identity {
	dev_t		dev;
	ino_t		ino;
	struct timespec	mtime;
};

/* For how long opening files may wait, all together, until the command runs; in ms. */
#define START_WAITS_MAX	OPEN_BLOCKED_MAX

/* The same, while one lot of mappings is looked at later. */
#define WAITS_MAX	(2 * OPEN_BLOCKED_MAX)

/* Is it known what is wrong with a file, so that it need not be opened? */
typedef bool (*mapped_known_fn)(void *data, const struct identity *identity);

/**
 * struct mapped - a process that opens files
 * @known:	called for each file that is found
 * @data:	for @known
 * @pid:	the process, 0 if there is none
 * @uid:	whose file it opens
 * @socket:	to talk to it
 * @hangs:	it does not answer
 * @slow:	that is as it waits again and again
 * @max:	for how long it may hang, in ms
 * @strikes:	how many did not, of late
 * @struck:	when the last one did not, in ms
 * @budget:	for how long files may wait from now on, all together, in ms
 * @spent:	of that, what is less than 1 ms, in us
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
 * @fd:		its place, to be opened for reading, -1 if there is none
 * @error:	why there is none, an error of errno.h, negative
 * @identity:	of the file, or the one that cannot be had
 * @asks:	is this one known?
 * @id:		its build-id
 * @has_sframe:	it has a section itself
 * @own:	what is made of it may be believed later
 * @alone:	if that is for the user's own tasks
 * @user:	who it is for
 * @unclaimed:	there is none as it is for those who have it mapped, and these are not known
 * @again:	there may be one later
 * @stuck:	when one of the processes has ended that do not
 * @patience:	for how long it was waited for, if it hangs, in ms
 * @waited:	for how long who opened it has waited, in us; may be a little less than 0
 * @message:	why there is none
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
	bool		again;
	bool		stuck;
	unsigned int	patience;
	s64		waited;
	char		message[SFRAME_MESSAGE];
};

int file_reopen(int fd, int flags);
unsigned int mapped_patience(const struct mapped *mapped);
void mapped_spend(struct mapped *mapped, unsigned int ms);
int mapped_open(struct mapped *mapped, const struct mapping *mapping, enum believe believe,
		struct mapped_file *file);
int mapped_end(struct mapped *mapped);

/* book.c: files that were met */

/* Files that are known. */
#ifndef FILES_MAX
#define FILES_MAX	16384
#endif

/* Of a section that was not there until the end. */
#define LATE_TOO_LATE	-1

/**
 * struct dso - a file that was met
 * @id:		its build-id; of size 0 if there is none
 * @user:	who it is for
 * @identity:	which file it is
 * @key:	what it is known by if it was refused, NULL if it was not
 * @path:	its name, NULL if it is known by the cache alone
 * @why:	why it has no section, NULL if it has one or needs none
 * @own:	what is made of it may be believed later
 * @alone:	if that is for the user's own tasks
 * @again:	it may be there when it is mapped the next time
 * @patience:	and who opens it waits for longer than this then, in ms
 * @busy:	it is converted, or waits for that
 * @others:	files of the same build-id were met meanwhile
 * @turn:	which of all that were to be converted
 * @tried:	how many turns it had in which it could not be opened
 * @since:	when it was mapped, if it was not known before, in ms
 * @late:	for how long it had no section then, in ms, or LATE_TOO_LATE
 * @lost:	bytes of code that its section does not describe, and .eh_frame does
 * @file:	its place, until it is converted
 * @next:	in the queue; or the next one that was refused
 * @before:	where the pointer to it is, if it was refused
 */
struct dso {
	struct build_id	id;
	struct user	user;
	struct identity	identity;
	char		*key;
	char		*path;
	char		*why;
	bool		own;
	bool		alone;
	bool		again;
	unsigned int	patience;
	bool		busy;
	bool		others;
	unsigned long	turn;
	unsigned int	tried;
	long		since;
	long		late;
	u64		lost;
	int		file;
	struct dso	*next;
	struct dso	**before;
};

/**
 * struct book - files that were met
 * @dsos:	files by build-id, of which nothing speaks against that
 * @refused:	others, by what they are known by
 * @oldest:	of these, a list
 * @end:	of the list
 * @places:	how many hung before it was known which file that was
 * @files:	what was looked at, by device and inode, or by name; some for one user
 * @nr_dsos:	entries in @dsos and @refused
 * @nr_files:	entries in @files
 * @forgot:	some that were refused had to make room
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
struct dso *book_find(const struct book *book, const struct build_id *id,
		      const struct user *user);
struct dso *book_find_refused(const struct book *book, const struct identity *identity);
struct dso *book_find_place(const struct book *book, const struct mapping *mapping);
void book_answers(struct book *book, const struct mapping *mapping);
struct dso *book_add(struct book *book, const struct build_id *id, const struct user *user,
		     const char *path);
struct dso *book_add_refused(struct book *book, const struct mapping *mapping,
			     const struct mapped_file *file);
bool book_refuse(struct book *book, struct dso *dso);
void book_found(struct book *book, const struct mapping *mapping);
void book_accept(struct book *book, const struct identity *identity);
void book_see(struct book *book, const char *file, const struct user *user);
bool book_has_seen(const struct book *book, const char *file, const struct user *user);
void book_missed(const struct book *book, sframe_missed_fn missed, void *data);
void book_free(struct book *book);

/* jobs.c: conversions, each by a process of its own */

/**
 * struct job - a file that is converted
 * @pid:	who does it
 * @pidfd:	to wait for
 * @output:	gets the section
 * @message:	memory that is shared with @pid, of SFRAME_MESSAGE bytes: what is wrong
 * @again:	that may go away, as there were too many files open
 * @lost:	bytes of code that the section does not describe, and .eh_frame does
 */
struct job {
	pid_t	pid;
	int	pidfd;
	int	output;
	char	*message;
	bool	again;
	u64	lost;
};

#define JOBS_MAX	64

/**
 * struct running - a conversion
 * @job:	that does it
 * @dso:	of what, NULL if it was killed
 * @blocked:	for how long it was blocked
 * @killed:	that was too long, and it need not be waited for
 */
struct running {
	struct job	job;
	struct dso	*dso;
	struct blocked	blocked;
	bool		killed;
};

/**
 * struct jobs - conversions, and what waits for its turn
 * @queue:	dsos that wait to be converted
 * @end:	of @queue
 * @waiting:	dsos in @queue
 * @turns:	how many were to be converted so far
 * @running:	conversions
 * @nr:		of these
 * @nr_killed:	how many of these were killed
 * @max:	how many others there may be
 * @held:	why the first of @queue does not begin for now, an error of errno.h; or 0
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
};

void job_limit_cpu(unsigned int seconds);
int job_start(struct job *job, int file);
int job_end(struct job *job, char *message);
void jobs_init(struct jobs *jobs);
void jobs_queue(struct jobs *jobs, struct dso *dso);
struct dso *jobs_start(struct jobs *jobs, int *error);
struct dso *jobs_kill_blocked(struct jobs *jobs, bool *hangs);
struct dso *jobs_end(struct jobs *jobs, unsigned int nr, int *section, bool *again,
		     char *message);
unsigned int jobs_going(const struct jobs *jobs);
bool jobs_are_done(const struct jobs *jobs, unsigned long last, unsigned int row);
void jobs_each(struct jobs *jobs, void (*fn)(struct dso *dso));
void jobs_drop(struct jobs *jobs, bool (*drops)(void *data, struct dso *dso, bool hangs),
	       void *data);
void jobs_free(struct jobs *jobs);

/* server.c: sentences; the rest of it is in server.h */

void __attribute__((format(printf, 1, 0))) say_line(const char *format, va_list args);

/* session.c: all of it together */

/**
 * struct session - see session.c
 * @options:	what it is for
 * @device:	the kernel's, open
 * @users:	those for whom it is open as well
 * @cache:	the cache, -1 if there is none
 * @watch:	what is watched
 * @book:	files that were met
 * @jobs:	what is converted
 * @mapped:	what opens files
 * @full:	it was said that others have no section
 * @forgot:	it was said that not all are listed
 * @stuck:	it was said that nothing more is opened
 * @apart:	it was said that some have no use of sections, or all have
 * @last:	whose file was looked at last, or 0
 * @unkept:	it was said that the cache takes nothing
 * @waits:	some files wait for the end of processes that hang
 * @lost:	events were lost, so all has to be looked at
 * @hung:	the least time for which one has hung that is to be tried again, in ms; or 0
 * @rescan:	when all may be looked at, in ms
 * @after:	the process for whose file there was no time left, or 0: others come first then
 * @for_all:	sections are used for tasks of others
 * @runs:	the start is over, so what is met is late
 * @over:	so is what there is to watch
 * @ended:	how many conversions are over
 * @sections:	how many the kernel was given
 * @converted:	how many of these were made
 * @cached:	how many are of the cache, and not known to be needed
 */
struct session {
	struct sframe_session_options	options;
	int				device;
	struct users			users;
	int				cache;
	struct watch			*watch;
	struct book			book;
	struct jobs			jobs;
	struct mapped			mapped;
	bool				full;
	bool				forgot;
	bool				stuck;
	bool				apart;
	pid_t				last;
	bool				unkept;
	bool				waits;
	bool				lost;
	unsigned int			hung;
	long				rescan;
	pid_t				after;
	bool				for_all;
	bool				runs;
	bool				over;
	unsigned int			ended;
	unsigned int			sections;
	unsigned int			converted;
	unsigned int			cached;
};

void session_found(void *data, const struct mapping *mapping);
bool session_has_refused(void *data, const struct identity *identity);
bool session_may_remove(const struct session *session, int error);
void session_convert(struct session *session, int fd);
void session_run(struct session *session, int fd);
void session_missed(struct session *session, sframe_missed_fn missed, void *data);
void session_summary(const struct session *session);
void __attribute__((format(printf, 2, 3)))
session_say(const struct session *session, const char *format, ...);
void session_free(struct session *session);

/* start.c: how it begins */

struct session *session_new(const struct sframe_session_options *options, char *message);

#endif /* _SFRAME_SESSION_H */
