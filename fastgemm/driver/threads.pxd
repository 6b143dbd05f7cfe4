"""Threads as the driver needs them: workspaces, binding, fork guard, floating-point flags.

cimported by ``_team.pyx`` alone: the C below has state (thread-local pointers), and a second
module would get a second copy of it.

Workspaces
    Each OS thread keeps one buffer and grows it on demand; it is freed when the thread ends.
    Fresh memory costs more than a product (first touch of 1 MiB: 0.8 ms on a Zen 5 virtual machine),
    so nothing is freed between calls.
Binding
    libgomp's workers, left alone, wake up on the caller's core after a pause and wait
    for it at the barrier: 4 to 8 ms for a product of 0.4.  Each worker binds itself, once, to one of
    the cores that the caller may use, beginning behind the one where the caller runs: 0.5 ms.  The
    caller's own mask is never touched, so it may come back from a pause on a worker's core, where nothing moves
    either of them, and rest after rest follows: that worker moves to the core that the caller has left.
    OMP_PROC_BIND, GOMP_CPU_AFFINITY or FASTGEMM_BIND=0 leave it to the user.
Rest
    The begin and the end of a region wait for every thread, also for one that is not running because another process,
    or another thread of the team, has its core: calls of 0.1 ms then take 4 to 16.  Whoever takes work says how long
    all of it would have taken that thread alone; where the team was slower than the fastest of them, twice in a row,
    calls do without one for a while: 20 ms, twice as long each time it happens again, at most 160, half as long when a
    team paid.  The result is the same to the bit.  (The caller's own figure is not enough: where it shares its core
    with a worker, the worker has done everything before the caller's next slice, and calls of 1 ms took 8, for ever.)
Size
    libgomp ends the threads that a smaller team leaves over, and starts others for the next larger one: 10 to 20 us
    each.  A thread's teams do not shrink, unless fewer threads are allowed: members that are too many take no work.
    Where a thread cannot be started (a limit of processes or of address space) libgomp ends the process.  So before a
    team grows as many threads are started, and ended, as a trial, by one caller at a time; where that fails calls go on
    with one thread, and rest.
Fork
    A child has libgomp's records of a team but not its threads, and would wait for them
    for ever.  Once this process has had a team, its children compute with one thread.
Interpreters
    A product's first call takes the GIL for the thread that computes, by a call of Python's (PyGILState_Ensure) that
    knows one interpreter, the main one, and in another waits for ever or goes on in the wrong one.
Flags
    Floating-point flags and rounding modes belong to a thread.  A worker takes over the caller's
    modes, and its flags go back to the caller, where NumPy looks for them.
"""

from fastgemm.driver.floats cimport fg_float_state  # its C comes first

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <stdlib.h>
    #include <stdint.h>
    #include <pthread.h>
    #include <string.h>
    #include <time.h>
    #ifdef __linux__
    #include <sched.h>
    #include <sys/syscall.h>
    #include <unistd.h>
    #endif
    /* Seconds.  A process that takes a core away holds it for 3 to 16 ms at a time; waking a worker takes under 0.1. */
    #define REST_WAIT 1e-3
    #define REST_LEAST 20e-3
    #define REST_MOST 160e-3

    /* ---- workspaces ---- */
    static __thread void *fg_space = NULL;
    static __thread size_t fg_space_size = 0;
    static pthread_key_t fg_space_key;
    static void fg_space_free(void *space) { free(space); }

    /* Behind what is asked for lies memory that was written to: kernels fetch lines behind the end of a panel. */
    #define FG_BEHIND 1024
    static void *fg_workspace(size_t bytes) {
        if (bytes <= fg_space_size && fg_space) return fg_space;
        size_t size = (bytes + FG_BEHIND + 0xffff) & ~(size_t)0xffff;
        pthread_setspecific(fg_space_key, NULL);
        free(fg_space);
        fg_space = aligned_alloc(4096, size);
        fg_space_size = fg_space ? size - FG_BEHIND : 0;
        if (fg_space) memset((char *)fg_space + bytes, 0, size - bytes);
        if (fg_space && pthread_setspecific(fg_space_key, fg_space)) {
            free(fg_space);
            fg_space = NULL;
            fg_space_size = 0;
        }
        return fg_space;
    }

    /* ---- fork ---- */
    static volatile int fg_had_team = 0, fg_is_orphan = 0;
    static void fg_in_child(void) { if (fg_had_team) fg_is_orphan = 1; }

    /* ---- interpreters ---- */
    static int fg_in_main(void) { return PyInterpreterState_Get() == PyInterpreterState_Main(); }

    /* ---- binding ---- */
    static int fg_bind = 1;
    static __thread int fg_bound = -1;      /* a worker's core */
    static __thread int fg_home = -1;       /* a caller's, which its workers leave free */
    #ifdef __linux__
    static int fg_core_of_worker(int id, int home, const cpu_set_t *allowed) {
        int count = CPU_COUNT(allowed), first = 0, wanted, cpu;
        for (cpu = 0; cpu < CPU_SETSIZE && cpu < home; cpu++) first += CPU_ISSET(cpu, allowed) != 0;
        if (count < 2) return -1;
        wanted = (first + id) % count;
        for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, allowed) && wanted-- == 0) return cpu;
        return -1;
    }
    static void fg_bind_to(int cpu) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof one, &one);
    }
    #endif

    /* ---- a team, and whether it pays ---- */
    typedef struct {
        unsigned state;     /* the caller's modes and flags on entry */
        unsigned flags;     /* those of the workers, gathered */
        int cpu;            /* where the caller is */
        int left;           /* where a worker of that core goes: the core that the caller has left, or -1 */
        int moved;
        double opened;
        double alone;       /* how long all of it would take the fastest of the team by itself */
    } fg_team;

    static double fg_rest_until = 0, fg_rest_length = 0;
    static long fg_rest_count = 0;
    static volatile int fg_late = 0;    /* the last team was slower than one thread */

    static double fg_clock(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec + 1e-9 * now.tv_nsec;
    }
    static double fg_read(const double *x) { double y; __atomic_load(x, &y, __ATOMIC_RELAXED); return y; }
    static void fg_write(double *x, double y) { __atomic_store(x, &y, __ATOMIC_RELAXED); }
    static int fg_resting(void) {
        double until = fg_read(&fg_rest_until);
        return until > 0 && fg_clock() < until;
    }
    static void fg_rest(double seconds) { fg_write(&fg_rest_until, fg_clock() + seconds); }
    static long fg_rests(void) { return __atomic_load_n(&fg_rest_count, __ATOMIC_RELAXED); }

    static void fg_team_open(fg_team *team) {
        team->state = fg_float_state();
        team->flags = 0;
        fg_had_team = 1;
        team->cpu = team->left = -1;
        team->moved = 0;
    #ifdef __linux__
        team->cpu = sched_getcpu();
        if (fg_home < 0) fg_home = team->cpu;
        if (fg_bind && team->cpu != fg_home) {
            cpu_set_t allowed;
            if (sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_ISSET(fg_home, &allowed))
                team->left = fg_home;
        }
    #endif
        team->alone = 1e9;
        team->opened = fg_clock();
    }
    /* A member finds no more work, having done `part` of all since it started. */
    static void fg_member_done(fg_team *team, double started, double part) {
        double alone, known = fg_read(&team->alone);
        if (part <= 0) return;
        alone = (fg_clock() - started) / part;
        while (alone < known &&
               !__atomic_compare_exchange(&team->alone, &known, &alone, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    }
    static void fg_worker_enter(fg_team *team, int id) {
        if (id == 0) return;
        fg_set_float_state(team->state & ~FG_FLAGS);
    #ifdef __linux__
        if (fg_bind && fg_bound < 0) {
            /* A worker inherits the mask of the thread that created it: the caller's. */
            cpu_set_t allowed;
            fg_bound = CPU_SETSIZE;
            if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
                int cpu = fg_core_of_worker(id, team->cpu, &allowed);
                if (cpu >= 0) fg_bind_to(fg_bound = cpu);
            }
        } else if (team->left >= 0 && fg_bound == team->cpu) {
            fg_bind_to(fg_bound = team->left);
            team->moved = 1;
        }
    #endif
    }
    static void fg_worker_leave(fg_team *team, int id) {
        if (id == 0) return;
        unsigned flags = fg_float_state() & FG_FLAGS;
        if (flags) __atomic_fetch_or(&team->flags, flags, __ATOMIC_RELAXED);
    }
    static void fg_team_close(fg_team *team) {
        double now = fg_clock(), length;
        if (team->flags) fg_set_float_state(fg_float_state() | team->flags);
        if (team->moved) fg_home = team->cpu;
        if (now - team->opened < team->alone) {
            length = fg_read(&fg_rest_length) / 2;
            if (length > 0) fg_write(&fg_rest_length, length < REST_LEAST / 2 ? 0 : length);
            if (fg_late) fg_late = 0;
        } else if (now - team->opened > team->alone + REST_WAIT) {
            length = 2 * fg_read(&fg_rest_length);
            /* A worker that slept for long may be late once: a virtual core takes a while to come back. */
            if (length == 0 && !fg_late) {
                fg_late = 1;
                return;
            }
            if (length < REST_LEAST) length = REST_LEAST;
            if (length > REST_MOST) length = REST_MOST;
            fg_write(&fg_rest_length, length);
            fg_write(&fg_rest_until, now + length);
            __atomic_fetch_add(&fg_rest_count, 1, __ATOMIC_RELAXED);
        }
    }

    /* ---- the size of a team ---- */
    static __thread int fg_team_had = 1;    /* that of this thread's last one */
    static pthread_mutex_t fg_growing = PTHREAD_MUTEX_INITIALIZER, fg_gate = PTHREAD_MUTEX_INITIALIZER;
    static long fg_starved_count = 0;
    static long fg_starved(void) { return __atomic_load_n(&fg_starved_count, __ATOMIC_RELAXED); }

    typedef struct { pthread_t thread; volatile int id; } fg_trial;
    static void *fg_try(void *mine) {
    #ifdef __linux__
        ((fg_trial *)mine)->id = (int)syscall(SYS_gettid);
    #endif
        pthread_mutex_lock(&fg_gate);
        pthread_mutex_unlock(&fg_gate);
        return NULL;
    }
    /* Whether so many threads can be there at once, besides those that are. */
    static int fg_can_start(int count) {
        int started = 0, i;
        fg_trial *trials = calloc(count, sizeof *trials);
        if (!trials) return 0;
        pthread_mutex_lock(&fg_gate);
        while (started < count && !pthread_create(&trials[started].thread, NULL, fg_try, &trials[started])) started++;
        pthread_mutex_unlock(&fg_gate);
        for (i = 0; i < started; i++) {
            pthread_join(trials[i].thread, NULL);
    #ifdef __linux__
            /* What has been joined counts until the kernel has forgotten it.  (Its number may be another's soon.) */
            double until = fg_clock() + 50e-3;
            while (syscall(SYS_tgkill, getpid(), trials[i].id, 0) == 0 && fg_clock() < until) sched_yield();
    #endif
        }
        free(trials);
        return started == count;
    }
    /* How many threads a team that is to have some is opened with, of `most` that are allowed; 0: go on alone. */
    static int fg_team_of(int threads, int most) {
        if (threads <= fg_team_had) {
            if (fg_team_had > most) fg_team_had = threads;
            return fg_team_had;
        }
        fg_had_team = 1;
        pthread_mutex_lock(&fg_growing);
        int enough = fg_can_start(threads - fg_team_had);
        if (enough) {
            fg_team_had = threads;
    #ifdef _OPENMP
            volatile int members = 0;
            /* libgomp starts them while nobody else does. */
            _Pragma("omp parallel num_threads(threads)")
            __atomic_fetch_add(&members, 1, __ATOMIC_RELAXED);
    #endif
        } else {
            __atomic_fetch_add(&fg_starved_count, 1, __ATOMIC_RELAXED);
            fg_rest(REST_MOST);
        }
        pthread_mutex_unlock(&fg_growing);
        return enough ? threads : 0;
    }

    static int fg_threads_init(int bind) {
        fg_bind = bind;
        if (pthread_key_create(&fg_space_key, fg_space_free)) return -1;
        return pthread_atfork(NULL, NULL, fg_in_child);
    }
    """
    ctypedef struct fg_team:
        pass
    void* fg_workspace(size_t) nogil
    const int fg_is_orphan
    bint fg_in_main()
    int fg_team_of(int threads, int most) nogil
    long fg_starved() nogil
    void fg_team_open(fg_team*) nogil
    void fg_member_done(fg_team*, double, double) nogil
    double fg_clock() nogil
    bint fg_resting() nogil
    long fg_rests() nogil
    void fg_rest(double) nogil
    void fg_team_close(fg_team*) nogil
    void fg_worker_enter(fg_team*, int) nogil
    void fg_worker_leave(fg_team*, int) nogil
    int fg_threads_init(int) nogil
