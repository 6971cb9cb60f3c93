//! Scripts: what a GPU program does, in lines.
//!
//! The one idea: a script says what is called, on which thread, in which order and how long it takes, in the
//! words of the API. The player turns every line into a real call. `#` begins a comment; a word begins a line,
//! its arguments follow, then `key=value`; `end` ends what `thread`, `repeat`, `step` or `process` began.
//!
//! ```text
//! api cuda                          # cuda, driver or hip: which functions the words mean
//! seed 7                            # where the ranges' values come from
//! stream main                       # made before any thread starts
//! event done
//! graph decode main nodes=300       # captured on the stream and instantiated
//! thread engine
//!   repeat 20s                      # or a number of turns
//!     step decode main              # a label for what the thread enqueues up to the end
//!       fault slow gpu=4x every=50  # this one is slowed down, and the oracle says so
//!       burn 300us                  # host work: CPU that is really used
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
//! | `api` | cuda, driver or hip | first line; cuda if there is none |
//! | `stream` | name, `blocking` | makes one, as engines do so that it does not wait for the default stream, or so that it does; at the top of the script before the threads start, in a thread when it gets there |
//! | `event` | name, `ring=N` | the same; a ring is N events recorded in turn |
//! | `graph` | name, stream, `nodes=N grid= block=` | the same, by a capture of N launches |
//! | `capture` | stream | begins a capture: what is enqueued is not run |
//! | `instantiate` `update` | graph, stream | ends the capture that began on the stream: the graph is made of it, or from here on the same as it |
//! | `destroy` | name | ends a stream, event or graph |
//! | `launch` `launchex` | stream, `grid=8x4x1 block=256 kernels=40` | a kernel, one of so many in turn |
//! | `graphlaunch` | graph, stream | |
//! | `copy` | h2d, d2h, d2d, h2h or default; size; stream | without a stream: the function that blocks |
//! | `fill` | size, stream | |
//! | `malloc` `hostalloc` | name, size | may be repeated under one name |
//! | `free` `hostfree` | name | ends the oldest of that name |
//! | `record` | event, stream | |
//! | `wait` | stream, event, `back=N` | the stream waits, the host does not |
//! | `query` | event or stream | |
//! | `poll` | event or stream, `pause=` | asks again and again until it is done |
//! | `sync` | `stream` name; `event` name, `back=N`; `device` | waits; `back=1`: for the event recorded before the latest |
//! | `call` | exported symbol, `stream= object= number= bytes= rows= kind= grid= block=` | any function, as its prototype needs |
//! | `burn` `sleep` | time | uses CPU; does not |
//! | `repeat` … `end` | number or time | |
//! | `step` … `end` | label, the stream of most of it, `size=0.5x..2x` | labels what this thread enqueues, on whatever stream; scales its grids, bytes and device time |
//! | `fault` | label, `gpu=3x host=2x` | slows the rest of the step down, and tells the oracle |
//! | `spin` | time, `threads=N` | so many threads compete with this one for its CPU |
//! | `define` … `end`, `use` | name | a piece of script under a name; `use` puts it in |
//! | `include` | piece | the lines of a piece that comes with the player stand here |
//! | `signal` `await` | name | one thread waits for another |
//! | `thread` … `end` | name, `later`, `copies=N process=P` | `later`: runs when it is spawned; `process`: in a process of its own |
//! | `spawn` `join` | name | starts a `later` thread; waits for all that this thread spawned under that name |
//! | `exec` | script | the process becomes a player of that script |
//!
//! Calls take `gpu=` (device time), `host=` (CPU time in the call), `blocks=` (how long a waiting call waits,
//! whatever the device says), `result=` (fails with that number), `inner=SYMBOL depth=N` (calls that function
//! inside itself). Every line takes `every=N after=M`, `unless=N after=M`, `at=K`, `from=K`, `until=K`: on which
//! turns of the innermost `repeat`, counted from 0, it happens. Sizes, times and counts may be ranges, `low..high`.

mod line;
pub mod parse;
pub mod value;
mod verbs;
mod words;

use probe_abi::Library;

use crate::model::call::Function;
use value::Span;
pub(crate) use verbs::symbol;

/// Which functions the words mean.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Api {
    /// The CUDA runtime.
    #[default]
    Cuda,
    /// The CUDA driver alone.
    Driver,
    /// HIP.
    Hip,
}

impl Api {
    /// The libraries to load, the lowest first.
    pub fn libraries(self) -> &'static [Library] {
        match self {
            Api::Cuda => &[Library::Cuda, Library::Cudart],
            Api::Driver => &[Library::Cuda],
            Api::Hip => &[Library::Amdhip],
        }
    }
}

/// A parsed script.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// Which functions the words mean.
    pub api: Api,
    /// Where the ranges' values come from.
    pub seed: u64,
    /// Names of streams; the first is `default`, the default stream.
    pub streams: Vec<String>,
    /// Names of events, and how many each is.
    pub events: Vec<(String, usize)>,
    /// Names of graphs.
    pub graphs: Vec<String>,
    /// Names of what `malloc` and `hostalloc` make.
    pub buffers: Vec<String>,
    /// Names of what `signal` and `await` speak of.
    pub signals: Vec<String>,
    /// Done before the threads start.
    pub setup: Vec<Statement>,
    /// The threads, those of other processes among them.
    pub threads: Vec<Thread>,
}

/// A thread and what it does.
#[derive(Clone, Debug, Default)]
pub struct Thread {
    /// Its name.
    pub name: String,
    /// It runs when spawned, not at once.
    pub is_later: bool,
    /// So many of it run.
    pub copies: u64,
    /// The process it runs in; `None` for the first.
    pub process: Option<String>,
    /// What it does.
    pub body: Vec<Statement>,
}

/// A line.
#[derive(Clone, Debug)]
pub struct Statement {
    /// On which turns.
    pub when: When,
    /// What.
    pub action: Action,
}

/// On which turns of the innermost `repeat`, counted from 0, a statement happens.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct When {
    /// Every so many turns; 0: every turn.
    pub every: u64,
    /// On which of them.
    pub after: u64,
    /// Not every so many turns; 0: always.
    pub unless: u64,
    /// From this turn on.
    pub from: u64,
    /// Up to this turn, which is out; 0: without end.
    pub until: u64,
}

impl When {
    /// True on turn `turn`.
    pub fn holds(&self, turn: u64) -> bool {
        let rhythm = self.every == 0 || turn % self.every == self.after % self.every;
        let barred = self.unless != 0 && turn % self.unless == self.after % self.unless;
        rhythm && !barred && turn >= self.from && (self.until == 0 || turn < self.until)
    }
}

/// How long a `repeat` goes on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Times {
    /// So many turns.
    Count(u64),
    /// So long, ns.
    For(u64),
}

/// What a line does. Objects stand as places in the script's lists of names.
#[derive(Clone, Debug)]
pub enum Action {
    /// A call.
    Call(Box<CallSpec>),
    /// Asks until the answer is yes, with so much time between the questions, ns.
    Poll(Box<CallSpec>, Span),
    /// Makes a stream.
    MakeStream {
        /// The stream.
        stream: usize,
        /// It and the legacy default stream wait for each other.
        is_blocking: bool,
    },
    /// Makes an event, or all of a ring.
    MakeEvent(usize),
    /// Makes an executable graph by capture.
    MakeGraph {
        /// The graph.
        graph: usize,
        /// The launch that is captured, once for each of its kernels.
        node: Box<CallSpec>,
    },
    /// Ends a capture; an executable graph is made of it, or updated with it.
    EndCapture {
        /// The graph.
        graph: usize,
        /// The stream that the capture began on.
        stream: usize,
        /// Which of the two, as [`symbol`] knows it.
        word: &'static str,
    },
    /// Uses CPU, ns.
    Burn(Span),
    /// Sleeps, ns.
    Sleep(Span),
    /// Ends a stream, a graph, or all events of a ring.
    Destroy(Object),
    /// Does something once, on the turn it stands in.
    Group(Vec<Statement>),
    /// Does something again and again.
    Repeat(Times, Vec<Statement>),
    /// A labelled turn of work.
    Step {
        /// The label.
        phase: String,
        /// Thousandths by which the work is larger than written.
        size: Span,
        /// The work.
        body: Vec<Statement>,
    },
    /// Slows the rest of the step down.
    Fault {
        /// The label.
        name: String,
        /// Thousandths of the device time.
        gpu: u64,
        /// Thousandths of the host time.
        host: u64,
    },
    /// Threads compete for the CPU.
    Spin {
        /// How many.
        threads: u64,
        /// For how long, ns.
        for_ns: u64,
    },
    /// Starts a thread of [`Script::threads`].
    Spawn(usize),
    /// Waits for the spawned ones of this thread.
    Join(usize),
    /// Lets one awaiting thread go on.
    Signal(usize),
    /// Waits for a signal.
    Await(usize),
    /// Becomes a player of another script.
    Exec(String),
}

/// What a call is about, beside its stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Object {
    /// Nothing.
    None,
    /// A stream, as the query's handle or as what a creation makes.
    Stream(usize),
    /// An event, so many back from the latest recorded.
    Event(usize, usize),
    /// An executable graph.
    Graph(usize),
    /// An allocation.
    Buffer(usize),
    /// A number as it stands.
    Number(u64),
}

/// A call as a script describes it.
#[derive(Clone, Debug)]
pub struct CallSpec {
    /// The function's index.
    pub index: usize,
    /// The function.
    pub function: Function,
    /// Its stream; 0 is the default stream.
    pub stream: usize,
    /// What it is about.
    pub object: Object,
    /// Bytes.
    pub bytes: Span,
    /// Rows of a rectangle.
    pub rows: u64,
    /// A `cudaMemcpyKind`.
    pub kind: u64,
    /// Blocks in each dimension.
    pub grid: [Span; 3],
    /// Threads of a block in each dimension.
    pub block: [u32; 3],
    /// Different kernels that this line launches in turn.
    pub kernels: u64,
    /// What tells this line's kernels from others.
    pub kernel: u64,
    /// Device time, ns.
    pub gpu: Option<Span>,
    /// CPU time in the call, ns.
    pub host: Span,
    /// How long it waits, ns.
    pub blocks: Option<u64>,
    /// What it returns.
    pub result: Option<u64>,
    /// The function it calls inside itself, and how deep.
    pub inner: Option<(usize, u32)>,
}

impl CallSpec {
    /// A call of a function with nothing said about it.
    pub fn new(index: usize, function: Function) -> CallSpec {
        CallSpec {
            index,
            function,
            stream: 0,
            object: Object::None,
            bytes: Span::just(0),
            rows: 1,
            kind: 0,
            grid: [Span::just(1); 3],
            block: [1; 3],
            kernels: 1,
            kernel: 0,
            gpu: None,
            host: Span::just(0),
            blocks: None,
            result: None,
            inner: None,
        }
    }
}

#[cfg(test)]
mod tests;
