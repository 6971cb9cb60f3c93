//! The script language of programs: threads, and the calls that each makes.
//!
//! A line is a word, its arguments, then `key=value`; `#` begins a comment; `end` ends a `thread`, `repeat`, `step` or
//! `define`. The player makes a real call for each line that names one.
//!
//! ```text
//! api cuda                          # cuda, driver or hip
//! seed 7                            # of the values drawn from ranges
//! stream main                       # made before any thread starts
//! event done
//! graph decode main nodes=300       # captured on the stream and instantiated
//! thread engine
//!   repeat 20s                      # or a number of turns
//!     step decode main              # labels the work that the thread enqueues up to the end
//!       fault slow gpu=4x every=50  # slows this step down; recorded in the oracle log
//!       burn 300us                  # host work: uses CPU
//!       graphlaunch decode main gpu=20ms host=400us
//!       copy d2h 4KiB main
//!       record done main
//!       sync event done
//!     end
//!   end
//! end
//! ```
//!
//! | word | arguments and keys | meaning |
//! |---|---|---|
//! | `api` | cuda, driver or hip | the API whose functions are called; only in the first line, default cuda |
//! | `stream` | name, `blocking` | creates a stream that does not synchronize with the legacy default stream, or with `blocking` one that does; outside of threads, before the threads start |
//! | `event` | name, `ring=N` | creates an event, or a ring of N events recorded in turn |
//! | `function` | name, `lookup` or `symbol` | registers a function, looks it up by name, or uses one of the player's own functions; outside of threads |
//! | `graph` | name, stream, `nodes=N grid= block=` | creates an executable graph by capturing N launches |
//! | `capture` | stream | begins a capture: enqueued work is not run |
//! | `instantiate` `update` | graph, stream | ends the capture that began on the stream, and instantiates or updates the graph |
//! | `destroy` | name | destroys a stream, event or graph |
//! | `launch` `launchex` | stream, `grid=8x4x1 block=256 kernels=40` | launches a kernel, N different ones in turn, or with `kernel=` a named function |
//! | `graphlaunch` | graph, stream | launches a graph |
//! | `copy` | h2d, d2h, d2d, h2h or default; size; stream | copies; without a stream, by the blocking function |
//! | `fill` | size, stream | sets memory |
//! | `malloc` `hostalloc` | name, size | allocates; a name may have several allocations |
//! | `free` `hostfree` | name | frees the oldest allocation of that name |
//! | `record` | event, stream | records an event |
//! | `wait` | stream, event, `back=N` | makes the stream wait for the event; the host continues |
//! | `query` | event or stream | queries once |
//! | `poll` | event or stream, `pause=` | queries until it is done |
//! | `sync` | `stream` name; `event` name, `back=N`; `device` | waits; with `back=1` for the record before the latest one of a ring |
//! | `call` | exported symbol, `stream= object= number= bytes= rows= kind= grid= block=` | calls any function; the keys fill the arguments of its prototype |
//! | `burn` `sleep` | time | uses CPU; sleeps |
//! | `repeat` … `end` | number or time | repeats the lines |
//! | `step` … `end` | label, main stream, `size=0.5x..2x` | labels the work that this thread enqueues on any stream; scales grids, bytes and device time |
//! | `fault` | label, `gpu=3x host=2x` | slows the rest of the step down; recorded in the oracle log |
//! | `spin` | time, `threads=N` | N threads compete with this one for its CPU |
//! | `define` … `end`, `use` | name | names lines; `use` inserts them |
//! | `include` | piece | inserts the lines of a built-in piece |
//! | `signal` `await` | name | signals; waits for a signal |
//! | `thread` … `end` | name, `later`, `copies=N process=P` | defines a thread; `later`: runs when spawned; `process`: runs in another process |
//! | `spawn` `join` | name | starts a `later` thread; waits for those that this thread spawned |
//! | `exec` | script | replaces the process by a player of that script |
//!
//! Calls take `gpu=` (device time), `host=` (CPU time in the call), `blocks=` (time that a sync call waits, instead of
//! the device's), `result=` (fails with that number), `inner=SYMBOL depth=N` (makes nested calls of that function).
//! Every line takes `every=N after=M`, `unless=N after=M`, `at=K`, `from=K`, `until=K`: the turns of the innermost
//! `repeat`, counted from 0, on which it runs. Sizes, times and counts may be ranges, `low..high`.

pub mod parse;
mod scope;
pub mod turns;
mod verbs;
mod words;

use probe_abi::Library;

use crate::model::call::StubFunction;
use crate::text::ValueRange;
use turns::{Times, When};
pub(crate) use verbs::symbol;

/// The API whose functions a script calls.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ScriptApi {
    /// The CUDA runtime.
    #[default]
    Cuda,
    /// The CUDA driver alone.
    Driver,
    /// HIP.
    Hip,
}

impl ScriptApi {
    /// Returns the libraries to load, the lowest first.
    pub fn libraries(self) -> &'static [Library] {
        match self {
            ScriptApi::Cuda => &[Library::Cuda, Library::Cudart],
            ScriptApi::Driver => &[Library::Cuda],
            ScriptApi::Hip => &[Library::Amdhip],
        }
    }
}

/// A parsed script.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// The API whose functions are called.
    pub api: ScriptApi,
    /// Seed of the values drawn from ranges.
    pub seed: u64,
    /// Names of streams; the first is `default`, the default stream.
    pub streams: Vec<String>,
    /// Names of events, and the size of each ring.
    pub events: Vec<(String, usize)>,
    /// Names of graphs.
    pub graphs: Vec<String>,
    /// Names of functions.
    pub functions: Vec<String>,
    /// Names of allocations.
    pub buffers: Vec<String>,
    /// Names of signals.
    pub signals: Vec<String>,
    /// Statements that run before the threads start.
    pub setup: Vec<Statement>,
    /// The threads of all processes.
    pub threads: Vec<Thread>,
}

/// A thread of a script.
#[derive(Clone, Debug, Default)]
pub struct Thread {
    /// Name of the thread.
    pub name: String,
    /// Whether it runs only when spawned.
    pub is_later: bool,
    /// Number of threads that run it.
    pub copies: u64,
    /// Name of the process it runs in; `None` for the first process.
    pub process: Option<String>,
    /// Statements of the thread.
    pub body: Vec<Statement>,
}

/// A line of a script.
#[derive(Clone, Debug)]
pub struct Statement {
    /// Turns on which it runs.
    pub when: When,
    /// Action of the line.
    pub action: ScriptAction,
}

/// The action of a line. Objects are indexes into the script's lists of names.
#[derive(Clone, Debug)]
pub enum ScriptAction {
    /// A call.
    Call(Box<CallSpec>),
    /// Repeats a query until it succeeds, with a pause between the calls, ns.
    Poll(Box<CallSpec>, ValueRange),
    /// Creates a stream.
    MakeStream {
        /// Index of the stream.
        stream: usize,
        /// Whether it synchronizes with the legacy default stream.
        is_blocking: bool,
    },
    /// Creates an event, or all events of a ring.
    MakeEvent(usize),
    /// Makes a function known under its name.
    NameFunction {
        /// Index of the function.
        function: usize,
        /// How the library learns its name.
        naming: Naming,
    },
    /// Creates an executable graph by capture.
    MakeGraph {
        /// Index of the graph.
        graph: usize,
        /// Launch that is captured once per kernel.
        node: Box<CallSpec>,
    },
    /// Ends a capture and instantiates or updates an executable graph.
    EndCapture {
        /// Index of the graph.
        graph: usize,
        /// Index of the stream that the capture began on.
        stream: usize,
        /// `instantiate` or `update`, a verb of [`symbol`].
        word: &'static str,
    },
    /// Uses CPU for a time, ns.
    Burn(ValueRange),
    /// Sleeps for a time, ns.
    Sleep(ValueRange),
    /// Destroys a stream, a graph, or all events of a ring.
    Destroy(Object),
    /// Runs statements once.
    Group(Vec<Statement>),
    /// Repeats statements.
    Repeat(Times, Vec<Statement>),
    /// Runs statements as a labelled step.
    Step {
        /// Label of the step.
        phase: String,
        /// Scale of the work, thousandths.
        size: ValueRange,
        /// Statements of the step.
        body: Vec<Statement>,
    },
    /// Slows the rest of the step down.
    Fault {
        /// Label of the fault.
        name: String,
        /// Scale of the device time, thousandths.
        gpu: u64,
        /// Scale of the host time, thousandths.
        host: u64,
    },
    /// Starts threads that compete for the CPU.
    Spin {
        /// Number of threads.
        threads: u64,
        /// Duration, ns.
        for_ns: u64,
    },
    /// Starts a thread of [`Script::threads`].
    Spawn(usize),
    /// Waits for the spawned threads of an index.
    Join(usize),
    /// Wakes one thread that waits for the signal.
    Signal(usize),
    /// Waits for a signal.
    Await(usize),
    /// Replaces the process by a player of another script.
    Exec(String),
}

/// How the library, or the agent, learns the name of a function.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Naming {
    /// It is registered with the runtime.
    Register,
    /// It is looked up by its name in a module.
    Lookup,
    /// It is a function of the player's executable, which has a symbol.
    Symbol,
}

/// The object of a call other than its stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Object {
    /// No object.
    None,
    /// A stream to query or create.
    Stream(usize),
    /// An event, and how many records before the latest.
    Event(usize, usize),
    /// An executable graph.
    Graph(usize),
    /// An allocation.
    Buffer(usize),
    /// A handle given as a number.
    Number(u64),
}

/// A call as a script describes it.
#[derive(Clone, Debug)]
pub struct CallSpec {
    /// Index of the function, see [`StubFunction::at`].
    pub index: usize,
    /// Function to call.
    pub function: StubFunction,
    /// Index of the stream; 0 is the default stream.
    pub stream: usize,
    /// Object of the call.
    pub object: Object,
    /// Bytes copied, set or allocated.
    pub bytes: ValueRange,
    /// Rows of a 2D copy.
    pub rows: u64,
    /// Direction of a copy, a `cudaMemcpyKind`.
    pub kind: u64,
    /// Blocks in each dimension.
    pub grid: [ValueRange; 3],
    /// Threads of a block in each dimension.
    pub block: [u32; 3],
    /// Number of different kernels that this line launches in turn.
    pub kernels: u64,
    /// Number that distinguishes this line's kernels from those of other lines.
    pub kernel: u64,
    /// Index of the named function that is launched instead.
    pub named: Option<usize>,
    /// Device time, ns; `None` for the default of the device model.
    pub gpu: Option<ValueRange>,
    /// CPU time in the call, ns.
    pub host: ValueRange,
    /// Time that the call waits, ns.
    pub blocks: Option<u64>,
    /// Result that the call fails with.
    pub result: Option<u64>,
    /// Function of nested calls, and their depth.
    pub inner: Option<(usize, u32)>,
}

impl CallSpec {
    /// Returns a call with default arguments.
    pub fn new(index: usize, function: StubFunction) -> CallSpec {
        CallSpec {
            index,
            function,
            stream: 0,
            object: Object::None,
            bytes: ValueRange::just(0),
            rows: 1,
            kind: 0,
            grid: [ValueRange::just(1); 3],
            block: [1; 3],
            kernels: 1,
            kernel: 0,
            named: None,
            gpu: None,
            host: ValueRange::just(0),
            blocks: None,
            result: None,
            inner: None,
        }
    }
}

#[cfg(test)]
mod tests;
