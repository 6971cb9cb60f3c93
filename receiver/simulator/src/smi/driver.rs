//! The state of a stub driver: its script, its clock and its handles.
//!
//! A handle is an index into a list of names that only grows, so it never refers to another device.

use std::ffi::{CStr, c_char};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::script::{DriverScript, ScriptedValue};
use super::{Codes, Return, SUCCESS};

/// Environment variable with the path of the script.
pub const SCRIPT: &str = "WARPTAP_STUB_SMI";

/// How often a wait polls for events.
const POLL: Duration = Duration::from_millis(5);

/// A driver whose fields a script describes; each library has one.
#[derive(Debug)]
pub struct ScriptedDriver {
    codes: &'static Codes,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    script: DriverScript,
    /// Number of `init` calls without `shutdown`.
    users: u32,
    names: Vec<String>,
    begun: Option<Instant>,
    /// Time set by a test.
    set_ns: Option<u64>,
    sets: Vec<Option<Set>>,
    calls: u64,
}

/// A set of events.
#[derive(Debug, Default)]
struct Set {
    devices: Vec<String>,
    /// Time up to which events were delivered, ns.
    seen_ns: u64,
    waiting: Vec<(String, u64)>,
}

impl State {
    fn now_ns(&mut self) -> u64 {
        let begun = *self.begun.get_or_insert_with(Instant::now);
        self.set_ns.unwrap_or_else(|| begun.elapsed().as_nanos() as u64)
    }

    /// Returns the value of a field and the time that the call takes, ns; fails before `init`.
    fn query(&mut self, device: &str, field: &str) -> Result<(ScriptedValue, u64), Return> {
        self.calls += 1;
        if self.users == 0 {
            return Err(self.script.codes().uninitialized);
        }
        let now_ns = self.now_ns();
        let (value, slow_ns) = self.script.query(device, field, now_ns);
        Ok((value, if self.set_ns.is_some() { 0 } else { slow_ns }))
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

impl ScriptedDriver {
    /// Returns a driver without a script.
    pub const fn new(codes: &'static Codes) -> ScriptedDriver {
        let state = State {
            script: DriverScript::empty(codes),
            users: 0,
            names: Vec::new(),
            begun: None,
            set_ns: None,
            sets: Vec::new(),
            calls: 0,
        };
        ScriptedDriver { codes, state: Mutex::new(state) }
    }

    /// Locks the state, which is valid even if a caller panicked.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.lock())
    }

    /// Replaces the script; returns 0 if it could be parsed. Body of `warptap_stub_smi_script`.
    ///
    /// # Safety
    /// `text` is a NUL-terminated string.
    pub unsafe fn set_script(&self, text: *const c_char) -> u32 {
        // SAFETY: the caller's promise.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
        match DriverScript::parse(self.codes, &text) {
            Ok(script) => self.with(|state| {
                state.script = script;
                0
            }),
            Err(_) => 1,
        }
    }

    /// Stops the clock at a time since the script's beginning. Body of `warptap_stub_smi_now`.
    pub fn set_now(&self, at_ns: u64) {
        self.with(|state| state.set_ns = Some(at_ns));
    }

    /// Returns the number of queries. Body of `warptap_stub_smi_calls`.
    pub fn calls(&self) -> u64 {
        self.with(|state| state.calls)
    }

    /// Initialises the driver and reads the script that [`SCRIPT`] names, if it is set.
    pub fn init(&self) -> Return {
        let named = std::env::var_os(SCRIPT).and_then(|path| std::fs::read_to_string(path).ok());
        self.with(|state| {
            if let Some(Ok(script)) = named.as_deref().map(|text| DriverScript::parse(self.codes, text)) {
                state.script = script;
            }
            state.users += 1;
            match state.query("driver", "init") {
                Ok((ScriptedValue::Error(error), _)) if error != self.codes.not_supported => {
                    state.users -= 1;
                    error
                }
                _ => SUCCESS,
            }
        })
    }

    /// Undoes one `init`.
    pub fn shutdown(&self) -> Return {
        self.with(|state| match state.users {
            0 => self.codes.uninitialized,
            _ => {
                state.users -= 1;
                SUCCESS
            }
        })
    }

    /// Returns the value of a field of the driver itself.
    pub fn of_driver(&self, field: &str) -> Result<ScriptedValue, Return> {
        let (value, slow_ns) = self.with(|state| state.query("driver", field))?;
        finish(value, slow_ns)
    }

    /// Returns the value of a field of a device.
    pub fn of_device(&self, handle: usize, field: &str) -> Result<ScriptedValue, Return> {
        let (value, slow_ns) = self.with(|state| {
            let name = state.name(handle)?;
            state.query(&name, field)
        })?;
        finish(value, slow_ns)
    }

    /// Returns the handles of all devices.
    pub fn devices(&self) -> Result<Vec<usize>, Return> {
        self.listed(|script, now_ns| script.devices(now_ns))
    }

    /// Returns the handles of a device's MIG instances, in order.
    pub fn instances(&self, handle: usize) -> Result<Vec<usize>, Return> {
        let name = self.with(|state| state.name(handle))?;
        self.listed(|script, now_ns| script.instances(&name, now_ns))
    }

    fn listed(&self, names: impl Fn(&DriverScript, u64) -> Vec<String>) -> Result<Vec<usize>, Return> {
        self.with(|state| {
            if state.users == 0 {
                return Err(self.codes.uninitialized);
            }
            let now_ns = state.now_ns();
            let names = names(&state.script, now_ns);
            Ok(names.iter().map(|name| state.handle(name)).collect())
        })
    }

    /// Creates a set of events that occur from now on.
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
            Some(slot) => {
                *slot = None;
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

    /// Waits for the next event of a set and returns its device and number. Does not wait while the clock is stopped.
    pub fn wait(&self, set: usize, timeout: Duration) -> Result<(usize, u64), Return> {
        let until = Instant::now() + timeout;
        loop {
            match self.with(|state| next_event(state, set))? {
                Some(event) => return Ok(event),
                None if Instant::now() >= until || self.with(|state| state.set_ns.is_some()) => {
                    return Err(self.codes.timeout);
                }
                None => std::thread::sleep(POLL),
            }
        }
    }

    /// Returns a field of a device that is a number.
    pub fn number(&self, handle: usize, field: &str) -> Result<u64, Return> {
        match self.of_device(handle, field)? {
            ScriptedValue::Number(number, _) => Ok(number),
            _ => Err(self.codes.invalid_argument),
        }
    }

    /// Returns a field of a device as text.
    pub fn text(&self, handle: usize, field: &str) -> Result<String, Return> {
        self.of_device(handle, field).map(ScriptedValue::into_text)
    }
}

/// Sleeps for the time of a slow call, without the lock, and returns errors as such.
fn finish(value: ScriptedValue, slow_ns: u64) -> Result<ScriptedValue, Return> {
    std::thread::sleep(Duration::from_nanos(slow_ns));
    match value {
        ScriptedValue::Error(error) => Err(error),
        value => Ok(value),
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
