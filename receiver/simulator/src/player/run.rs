//! Plays a script: runs its threads and blocks. The module `calls` makes the calls.

use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{Scope, ScopedJoinHandle};

use probe_abi::NON_BLOCKING;

use super::PlayError;
use super::calls::Caller;
use super::protocol::{Player, ProtocolError};
use super::spin::Contention;
use super::world::World;
use crate::functions::by_symbol;
use crate::model::clock;
use crate::named;
use crate::script::turns::Times;
use crate::script::{CallSpec, Naming, Object, ScriptAction, Statement, Thread};
use crate::text::ValueRange;

/// Longest duration of a `poll`, ns; after that the script is wrong, and ends.
const POLL_MAX_NS: u64 = 30_000_000_000;

/// Address of the first registered function.
const REGISTERED: u64 = 0x5555_6000_0000;

/// Whether the next statement runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Flow {
    On,
    Over,
}

/// Plays a script together with its other processes; returns the number of calls that this process made.
pub(super) fn run(world: World, mut others: Vec<Player>) -> Result<u64, PlayError> {
    for other in &mut others {
        other.go().map_err(failed)?;
    }
    std::thread::scope(|scope| {
        let mut first = Runner::new(&world, scope, "main", 0);
        let setup = first.all(&world.script.setup);
        first.caller.flush();
        if setup == Flow::On {
            start_all(&world, scope);
        }
    });
    for mut other in others {
        let _ = other.done().and_then(|_| other.finish());
    }
    Ok(world.calls.load(Relaxed))
}

/// Starts the other processes of the script, each up to the start signal; none in such a process itself.
pub(super) fn start_others(world: &World) -> Result<Vec<Player>, PlayError> {
    if world.options.process.is_some() {
        return Ok(Vec::new());
    }
    let mut names: Vec<_> = world.script.threads.iter().filter_map(|t| t.process.clone()).collect();
    names.sort();
    names.dedup();
    names
        .iter()
        .map(|name| {
            let more = ["--process", name, "--wait-go"];
            Player::start(again(world, &world.options.source().name(), &more)).map_err(failed)
        })
        .collect()
}

fn failed(error: ProtocolError) -> PlayError {
    PlayError::Usage(format!("another process of the script failed: {error}"))
}

/// Returns a command that runs this program as a player of `script`, with the same options and these arguments.
fn again(world: &World, script: &str, more: &[&str]) -> Command {
    let mut arguments = world.options.again(&script.into());
    arguments.extend(["--stubs".into(), world.stubs.clone().into()]);
    arguments.extend(more.iter().map(Into::into));
    world.options.origin.again(&arguments)
}

fn start_all<'scope>(world: &'scope World, scope: &'scope Scope<'scope, '_>) {
    let ours = |t: &&Thread| !t.is_later && t.process == world.options.process;
    for thread in world.script.threads.iter().filter(ours) {
        for copy in 0..thread.copies {
            start(world, scope, thread, copy);
        }
    }
}

fn start<'scope>(
    world: &'scope World,
    scope: &'scope Scope<'scope, '_>,
    thread: &'scope Thread,
    copy: u64,
) -> Option<ScopedJoinHandle<'scope, ()>> {
    let name = thread.name.chars().take(15).collect();
    let run = move || {
        let mut runner = Runner::new(world, scope, &thread.name, copy);
        runner.all(&thread.body);
        runner.caller.flush();
    };
    std::thread::Builder::new().name(name).spawn_scoped(scope, run).ok()
}

/// A thread of the script.
struct Runner<'scope, 'env> {
    world: &'scope World,
    scope: &'scope Scope<'scope, 'env>,
    caller: Caller<'scope>,
    /// Turn of the innermost `repeat`.
    turn: u64,
    spawned: Vec<(usize, ScopedJoinHandle<'scope, ()>)>,
    contention: Option<Contention>,
}

impl<'scope, 'env> Runner<'scope, 'env> {
    fn new(world: &'scope World, scope: &'scope Scope<'scope, 'env>, name: &str, copy: u64) -> Self {
        let caller = Caller::new(world, name, copy);
        Runner { world, scope, caller, turn: 0, spawned: Vec::new(), contention: None }
    }

    fn all(&mut self, body: &[Statement]) -> Flow {
        for statement in body.iter().filter(|s| s.when.holds(self.turn)).collect::<Vec<_>>() {
            if self.one(&statement.action) == Flow::Over {
                return Flow::Over;
            }
        }
        Flow::On
    }

    fn one(&mut self, action: &ScriptAction) -> Flow {
        match action {
            ScriptAction::Call(spec) => self.caller.call(spec, self.turn),
            ScriptAction::Poll(spec, pause) => return self.poll(spec, pause),
            ScriptAction::MakeStream { stream, is_blocking } => self.make_stream(*stream, *is_blocking),
            ScriptAction::MakeEvent(at) => self.each_event(*at, "event"),
            ScriptAction::NameFunction { function, naming } => self.name_function(*function, *naming),
            ScriptAction::MakeGraph { graph, node } => self.make_graph(*graph, node),
            ScriptAction::EndCapture { graph, stream, word } => self.end_capture(*graph, *stream, word),
            ScriptAction::Destroy(Object::Event(at, _)) => self.each_event(*at, "destroy event"),
            ScriptAction::Destroy(object) => self.destroy(*object),
            ScriptAction::Burn(span) => {
                let ns = self.caller.host_ns(span);
                clock::burn(ns);
            }
            ScriptAction::Sleep(span) => {
                let ns = self.caller.sample_ns(span);
                clock::sleep_until(clock::now_ns().saturating_add(ns).min(self.world.ends_ns));
            }
            ScriptAction::Group(body) => return self.all(body),
            ScriptAction::Repeat(times, body) => return self.repeat(*times, body),
            ScriptAction::Step { phase, size, body } => {
                let before = self.caller.begin_step(phase, size);
                let flow = self.all(body);
                self.caller.end_step(before);
                return flow;
            }
            ScriptAction::Fault { name, gpu, host } => self.caller.fault(name, *gpu, *host),
            ScriptAction::Spin { threads, for_ns } => {
                self.contention = None;
                self.contention = Some(Contention::begin(*threads, self.world.scaled(*for_ns)));
            }
            ScriptAction::Spawn(at) => self.spawn(*at),
            ScriptAction::Join(at) => self.join(*at),
            ScriptAction::Signal(at) => self.world.signals[*at].send(),
            ScriptAction::Await(at) => {
                if !self.world.signals[*at].wait(|| self.world.is_over()) {
                    return Flow::Over;
                }
            }
            ScriptAction::Exec(script) => self.exec(script),
        }
        Flow::On
    }

    fn repeat(&mut self, times: Times, body: &[Statement]) -> Flow {
        let outer = self.turn;
        let began_ns = clock::now_ns();
        self.turn = 0;
        let mut flow = Flow::On;
        while flow == Flow::On && self.continues(times, began_ns) {
            flow = self.all(body);
            self.turn += 1;
            self.caller.flush_if_full();
            if self.contention.as_ref().is_some_and(|c| clock::now_ns() >= c.until_ns) {
                self.contention = None;
            }
        }
        self.turn = outer;
        if self.world.is_over() { Flow::Over } else { flow }
    }

    fn continues(&self, times: Times, began_ns: u64) -> bool {
        let more = match times {
            Times::Count(count) => self.turn < count,
            Times::For(_) if self.world.options.turns.is_some_and(|turns| self.turn >= turns) => false,
            Times::For(ns) => clock::now_ns() < began_ns.saturating_add(self.world.scaled(ns)),
        };
        more && !self.world.is_over()
    }

    /// Returns a call of the function that a verb means in this script's API.
    fn spec(&self, word: &str) -> Option<CallSpec> {
        let symbol = crate::script::symbol(self.world.script.api, word)?;
        by_symbol(symbol).map(|(index, function)| CallSpec::new(index, function))
    }

    fn make(&mut self, word: &str, object: Object) {
        if let Some(mut spec) = self.spec(word) {
            spec.object = object;
            self.caller.call(&spec, self.turn);
        }
    }

    fn make_stream(&mut self, stream: usize, is_blocking: bool) {
        if let Some(mut spec) = self.spec("stream") {
            spec.object = Object::Stream(stream);
            spec.bytes = ValueRange::just(if is_blocking { 0 } else { NON_BLOCKING });
            self.caller.call(&spec, self.turn);
        }
    }

    /// Makes a function known under its name, and stores its address or handle.
    fn name_function(&mut self, function: usize, naming: Naming) {
        let name = &self.world.kernel_names[function];
        let address = match naming {
            Naming::Symbol => named::address_of(&self.world.script.functions[function]).unwrap_or_default(),
            Naming::Register => REGISTERED + function as u64 * 0x100,
            Naming::Lookup => 0,
        };
        self.world.kernels[function].store(address, Relaxed);
        let verb = match naming {
            Naming::Symbol => return,
            Naming::Register => "function register",
            Naming::Lookup => "function lookup",
        };
        let Some(mut spec) = self.spec(verb) else { return };
        (spec.named, spec.bytes) = (Some(function), ValueRange::just(name.as_ptr() as u64));
        let made = self.caller.call_for(&spec, self.turn);
        if naming == Naming::Lookup {
            self.world.kernels[function].store(made, Relaxed);
        }
    }

    /// Queries until the work is done.
    fn poll(&mut self, spec: &CallSpec, pause: &ValueRange) -> Flow {
        let ends_ns = clock::now_ns() + POLL_MAX_NS;
        while !self.caller.query(spec, self.turn) {
            let now_ns = clock::now_ns();
            if self.world.is_over() || now_ns > ends_ns {
                return Flow::Over;
            }
            clock::sleep_until(now_ns + self.caller.sample_ns(pause));
        }
        Flow::On
    }

    /// Creates or destroys all events of a ring.
    fn each_event(&mut self, at: usize, word: &str) {
        let ring = &self.world.events[at];
        for handle in &ring.handles {
            let Some(mut spec) = self.spec(word) else { return };
            spec.object = Object::Number(handle.load(Relaxed));
            let made = self.caller.call_for(&spec, self.turn);
            handle.store(made, Relaxed);
        }
        ring.records.store(0, Relaxed);
    }

    fn destroy(&mut self, object: Object) {
        match object {
            Object::Stream(at) => {
                let Some(mut spec) = self.spec("destroy stream") else { return };
                spec.stream = at;
                self.caller.call(&spec, self.turn);
            }
            _ => self.make("destroy graph", object),
        }
    }

    /// Captures launches into a graph and instantiates it.
    fn make_graph(&mut self, graph: usize, node: &CallSpec) {
        let specs = ["capture begin", "capture end", "instantiate"].map(|word| self.spec(word));
        let [Some(mut begin), Some(mut end), Some(mut make)] = specs else { return };
        (begin.stream, end.stream) = (node.stream, node.stream);
        self.caller.call(&begin, self.turn);
        for kernel in 0..node.kernels {
            self.caller.call(node, kernel);
        }
        let captured = self.caller.call_for(&end, self.turn);
        make.object = Object::Graph(graph);
        self.caller.call_on(&make, captured);
    }

    /// Ends the capture on a stream and instantiates or updates a graph, by the verb `word`.
    fn end_capture(&mut self, graph: usize, stream: usize, word: &str) {
        let specs = ["capture end", word, "destroy captured"].map(|word| self.spec(word));
        let [Some(mut end), Some(mut make), Some(destroy)] = specs else { return };
        end.stream = stream;
        make.object = Object::Graph(graph);
        let captured = self.caller.call_for(&end, self.turn);
        self.caller.call_on(&make, captured);
        self.caller.call_on(&destroy, captured);
    }

    fn spawn(&mut self, at: usize) {
        let Some(thread) = self.world.script.threads.get(at) else { return };
        for copy in 0..thread.copies {
            if let Some(handle) = start(self.world, self.scope, thread, copy) {
                self.spawned.push((at, handle));
            }
        }
    }

    fn join(&mut self, at: usize) {
        let (ended, others): (Vec<_>, Vec<_>) = self.spawned.drain(..).partition(|(of, _)| *of == at);
        self.spawned = others;
        for (_, handle) in ended {
            let _ = handle.join();
        }
    }

    /// Replaces the process by a player of another script. Other threads end.
    fn exec(&mut self, script: &str) {
        use std::os::unix::process::CommandExt;
        self.caller.flush();
        let options = &self.world.options;
        let removes = options.stubs.is_none() || options.remove_stubs;
        let more = [(options.wait_go, "--wait-go"), (removes, "--remove-stubs")];
        let more: Vec<&str> = more.into_iter().filter(|(wanted, _)| *wanted).map(|(_, name)| name).collect();
        let failed = again(self.world, script, &more).exec();
        self.caller.report(&format!("cannot exec a player of {script}: {failed}"));
    }
}
