"""The tuner: finds, for a shape and this CPU, a configuration that beats the heuristic's.

``python -m fastgemm.tune --help`` is the manual of the command.  The way of a problem::

    shapes ──▷ Problem ──▷ space (every legal Config, equal ones once)
                              │
       strategies/<name>  ◁── driver ──▷ runner: live (a worker process) or replay (a table)
       costs = yield configs  │
                           compare: the best against the heuristic, in pairs
                              │ confirmed only
                           database record          journal: what was tuned, for --resume; history: every trial

Nothing outside this folder imports it before it is asked to tune (`CompiledGraph.tune`).  It needs more than NumPy:
``pip install fastgemm[tune]``.

One idea a module:

================ =======================================================================
``shapes``       what to tune: the command line's shapes, CSV files, logs of untuned calls
``space``        which configurations there are for a problem, and which are next to which
``search_space`` what any space is to a strategy: points, moves, coordinates
``nested``       the papers' nested tilings and a kernel that runs them, to compare strategies on
``nested_search`` a strategy at work on them, live
``nested_worker`` the process that runs them
``nests``        loop nests as arrays, and their cost by data movement
``kernel_nests`` the nests of the library's own configurations
``features``     the nests as numbers for a model
``boosting``     boosted trees that rank nests, from searches of the past and the one at hand
``annealing``    simulated annealing over a model, and batches whose points differ
``policies``     small networks in NumPy, for strategies that learn by reward
``measure``      `Measurement`, what a runner is, and the one that replays a table
``live``         the runner that times kernels in a worker process, and watches it
``worker``       that process: it runs candidates, checks and times them
``operands``     what is multiplied to measure, the reference, and how far a result may be from it
``calls``        packed and fused problems, which are timed by the library's own calls
``graphs``       the products of a compiled graph
``drift``        whether the machine keeps its speed meanwhile
``earlier``      what database files know from other builds and machines
``compare``      the paired final that a record must win
``journal``      the log of finished problems beside the database
``history``      the log of everything that was measured, for searches that learn from it
``lines``        files of JSON lines that several processes append to
``arguments``    what values on a command line may be
``storage``      Optuna's storages: studies that other processes go on with
``driver``       budget, cache of measurements, one problem from start to record
``specialise``   kernels for single small shapes, judged and recorded
``compile``      the compiler that makes them, into the user's cache
``db``           the command for database files: show, check, merge, export, prune
``recheck``      whether the gains of a database hold, in fresh processes
``report``       progress and the table at the end
``chronicle``    the report that stays: Markdown and plots
``words``        times, dates, configurations, problems and errors in a few words
``session``      a run of the command: many problems, one budget, what is kept
``strategies``   one file each, found by looking into the folder
================ =======================================================================
"""
