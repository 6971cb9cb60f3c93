//! The driver behind the functions: which script holds, what time it is, which handle is whose.
//!
//! Handles are places in a list of names that only grows, so that a handle never comes to mean another device.

use std::ffi::{CStr, c_char};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::script::{Answer, Script};
use super::{Codes, Return, SUCCESS};

/// The variable that names the file with the script.
pub const SCRIPT: &str = "WARPTAP_STUB_SMI";

/// How often a wait for events looks for one.
const LOOK: Duration = Duration::from_millis(5);

/// A driver, of which a library has one.
#[derive(Debug)]
pub struct Driver {
    codes: &'static Codes,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    script: Script,
    /// Initialised and not shut down.
    users: u32,
    names: Vec<String>,
    begun: Option<Instant>,
    /// The time that a test says it is.
    told_ns: Option<u64>,
    sets: Vec<Option<Set>>,
    calls: u64,
}

/// A set of events.
#[derive(Debug, Default)]
struct Set {
    devices: Vec<String>,
    /// Events up to here were delivered.
    seen_ns: u64,
    waiting: Vec<(String, u64)>,
}

impl State {
    fn now_ns(&mut self) -> u64 {
        let begun = *self.begun.get_or_insert_with(Instant::now);
        self.told_ns.unwrap_or_else(|| begun.elapsed().as_nanos() as u64)
    }

    /// What is answered, unless nobody initialised.
    fn ask(&mut self, device: &str, question: &str) -> Result<(Answer, u64), Return> {
        self.calls += 1;
        if self.users == 0 {
            return Err(self.script.codes().uninitialized);
        }
        let now_ns = self.now_ns();
        let (answer, slow_ns) = self.script.ask(device, question, now_ns);
        let waits = if self.told_ns.is_some() { 0 } else { slow_ns };
        Ok((answer, waits))
    }

    fn handle(&mut self, name: &str) -> usize {
        let at = self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        at + 1
    }

    fn name(&self, handle: usize) -> Result<String, Return> {
        let name = handle.checked_sub(1).and_then(|at| self.names.get(at));
        name.cloned().ok_or(self.script.codes().invalid_argument)
    }
}

impl Driver {
    /// A driver that answers nothing yet.
    pub const fn new(codes: &'static Codes) -> Driver {
        let state = State {
            script: Script::empty(codes),
            users: 0,
            names: Vec::new(),
            begun: None,
            told_ns: None,
            sets: Vec::new(),
            calls: 0,
        };
        Driver { codes, state: Mutex::new(state) }
    }

    /// A caller that panicked has left plain values behind.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.lock())
    }

    /// Body of `warptap_stub_smi_script`: from here on this script holds. 0 if it can be read.
    ///
    /// # Safety
    /// `text` is a NUL-terminated string.
    pub unsafe fn set_script(&self, text: *const c_char) -> u32 {
        // SAFETY: the caller's promise.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
        match Script::parse(self.codes, &text) {
            Ok(script) => self.with(|state| {
                state.script = script;
                0
            }),
            Err(_) => 1,
        }
    }

    /// Body of `warptap_stub_smi_now`: it is this time, since the script's beginning, until another is told.
    pub fn set_now(&self, at_ns: u64) {
        self.with(|state| state.told_ns = Some(at_ns));
    }

    /// Body of `warptap_stub_smi_calls`: questions asked so far.
    pub fn calls(&self) -> u64 {
        self.with(|state| state.calls)
    }

    /// Begins: reads the script that the environment names, where it names one.
    pub fn init(&self) -> Return {
        let named = std::env::var_os(SCRIPT).and_then(|path| std::fs::read_to_string(path).ok());
        self.with(|state| {
            if let Some(Ok(script)) = named.as_deref().map(|text| Script::parse(self.codes, text)) {
                state.script = script;
            }
            state.users += 1;
            let answer = state.ask("driver", "init");
            match answer {
                Ok((Answer::Error(error), _)) if error != self.codes.not_supported => {
                    state.users -= 1;
                    error
                }
                _ => SUCCESS,
            }
        })
    }

    /// Ends what [`init`] began.
    pub fn shutdown(&self) -> Return {
        self.with(|state| match state.users {
            0 => self.codes.uninitialized,
            _ => {
                state.users -= 1;
                SUCCESS
            }
        })
    }

    /// What the driver itself answers.
    pub fn of_driver(&self, question: &str) -> Result<Answer, Return> {
        let (answer, slow_ns) = self.with(|state| state.ask("driver", question))?;
        finish(answer, slow_ns)
    }

    /// What a device answers.
    pub fn of_device(&self, handle: usize, question: &str) -> Result<Answer, Return> {
        let (answer, slow_ns) = self.with(|state| {
            let name = state.name(handle)?;
            state.ask(&name, question)
        })?;
        finish(answer, slow_ns)
    }

    /// The handles of all devices.
    pub fn devices(&self) -> Result<Vec<usize>, Return> {
        self.listed(|script, now_ns| script.devices(now_ns))
    }

    /// The handles of a device's instances, each at its number.
    pub fn instances(&self, handle: usize) -> Result<Vec<usize>, Return> {
        let name = self.with(|state| state.name(handle))?;
        self.listed(|script, now_ns| script.instances(&name, now_ns))
    }

    fn listed(&self, names: impl Fn(&Script, u64) -> Vec<String>) -> Result<Vec<usize>, Return> {
        self.with(|state| {
            if state.users == 0 {
                return Err(self.codes.uninitialized);
            }
            let now_ns = state.now_ns();
            let names = names(&state.script, now_ns);
            Ok(names.iter().map(|name| state.handle(name)).collect())
        })
    }

    /// A new set of events: what happens from now on.
    pub fn new_set(&self) -> usize {
        self.with(|state| {
            let seen_ns = state.now_ns();
            state.sets.push(Some(Set { seen_ns, ..Set::default() }));
            state.sets.len()
        })
    }

    /// Frees a set.
    pub fn free_set(&self, set: usize) -> Return {
        self.with(|state| match set.checked_sub(1).and_then(|at| state.sets.get_mut(at)) {
            Some(place) => {
                *place = None;
                SUCCESS
            }
            None => self.codes.invalid_argument,
        })
    }

    /// Adds a device to a set.
    pub fn register(&self, handle: usize, set: usize) -> Return {
        if let Err(error) = self.of_device(handle, "events") {
            return error;
        }
        self.with(|state| {
            let name = state.name(handle);
            let set = set.checked_sub(1).and_then(|at| state.sets.get_mut(at)?.as_mut());
            match (name, set) {
                (Ok(name), Some(set)) => {
                    set.devices.push(name);
                    SUCCESS
                }
                _ => self.codes.invalid_argument,
            }
        })
    }

    /// The next event of a set: whose, and its number. A time that was told does not pass by waiting.
    pub fn wait(&self, set: usize, timeout: Duration) -> Result<(usize, u64), Return> {
        let until = Instant::now() + timeout;
        loop {
            match self.with(|state| next_event(state, set))? {
                Some(event) => return Ok(event),
                None if Instant::now() >= until || self.with(|state| state.told_ns.is_some()) => {
                    return Err(self.codes.timeout);
                }
                None => std::thread::sleep(LOOK),
            }
        }
    }

    /// The number that a device answers.
    pub fn number(&self, handle: usize, question: &str) -> Result<u64, Return> {
        match self.of_device(handle, question)? {
            Answer::Number(number, _) => Ok(number),
            _ => Err(self.codes.invalid_argument),
        }
    }

    /// The text that a device answers.
    pub fn text(&self, handle: usize, question: &str) -> Result<String, Return> {
        self.of_device(handle, question).map(Answer::into_text)
    }
}

/// The lock is not held while the caller waits: other threads are answered meanwhile.
fn finish(answer: Answer, slow_ns: u64) -> Result<Answer, Return> {
    std::thread::sleep(Duration::from_nanos(slow_ns));
    match answer {
        Answer::Error(error) => Err(error),
        answer => Ok(answer),
    }
}

fn next_event(state: &mut State, set: usize) -> Result<Option<(usize, u64)>, Return> {
    let now_ns = state.now_ns();
    let codes = state.script.codes();
    let at = set.checked_sub(1).ok_or(codes.invalid_argument)?;
    let State { script, sets, .. } = state;
    let set = sets.get_mut(at).and_then(Option::as_mut).ok_or(codes.invalid_argument)?;
    let due = script.events(set.seen_ns, now_ns).into_iter().map(|(_, device, number)| (device, number));
    set.waiting.extend(due.filter(|(device, _)| set.devices.contains(device)));
    set.seen_ns = now_ns;
    if set.waiting.is_empty() {
        return Ok(None);
    }
    let (name, number) = set.waiting.remove(0);
    Ok(Some((state.handle(&name), number)))
}
