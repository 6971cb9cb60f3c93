//! The driver behind the functions: which script holds, what time it is, which handle is whose.
//!
//! Handles are places in a list of names that only grows, so that a handle never comes to mean another device.

use std::ffi::{CStr, c_char};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::SCRIPT;
use super::abi::{self, Return};
use super::script::{Answer, Script};

/// How often a wait for events looks for one.
const LOOK: Duration = Duration::from_millis(5);

#[derive(Debug, Default)]
struct Driver {
    script: Script,
    /// `nvmlInit` without its `nvmlShutdown`.
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

static DRIVER: Mutex<Option<Driver>> = Mutex::new(None);

/// A caller that panicked has left plain values behind.
fn lock() -> MutexGuard<'static, Option<Driver>> {
    DRIVER.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with<T>(work: impl FnOnce(&mut Driver) -> T) -> T {
    work(lock().get_or_insert_default())
}

impl Driver {
    fn now_ns(&mut self) -> u64 {
        let begun = *self.begun.get_or_insert_with(Instant::now);
        self.told_ns.unwrap_or_else(|| begun.elapsed().as_nanos() as u64)
    }

    /// What is answered, unless nobody initialised.
    fn ask(&mut self, device: &str, question: &str) -> Result<(Answer, u64), Return> {
        self.calls += 1;
        if self.users == 0 {
            return Err(abi::UNINITIALIZED);
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
        name.cloned().ok_or(abi::INVALID_ARGUMENT)
    }
}

/// Body of `warptap_stub_nvml_script`: from here on this script holds. 0 if it can be read.
///
/// # Safety
/// `text` is a NUL-terminated string.
pub unsafe fn set_script(text: *const c_char) -> u32 {
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    match Script::parse(&text) {
        Ok(script) => with(|driver| {
            driver.script = script;
            0
        }),
        Err(_) => 1,
    }
}

/// Body of `warptap_stub_nvml_now`: it is this time, since the script's beginning, until another is told.
pub fn set_now(at_ns: u64) {
    with(|driver| driver.told_ns = Some(at_ns));
}

/// Body of `warptap_stub_nvml_calls`: questions asked so far.
pub fn calls() -> u64 {
    with(|driver| driver.calls)
}

/// Begins: reads the script that the environment names, where it names one.
pub fn init() -> Return {
    let named = std::env::var_os(SCRIPT).and_then(|path| std::fs::read_to_string(path).ok());
    with(|driver| {
        if let Some(Ok(script)) = named.as_deref().map(Script::parse) {
            driver.script = script;
        }
        driver.users += 1;
        let answer = driver.ask("driver", "init");
        match answer {
            Ok((Answer::Error(error), _)) if error != abi::NOT_SUPPORTED => {
                driver.users -= 1;
                error
            }
            _ => abi::SUCCESS,
        }
    })
}

/// Ends what [`init`] began.
pub fn shutdown() -> Return {
    with(|driver| match driver.users {
        0 => abi::UNINITIALIZED,
        _ => {
            driver.users -= 1;
            abi::SUCCESS
        }
    })
}

/// What the driver itself answers.
pub fn of_driver(question: &str) -> Result<Answer, Return> {
    let (answer, slow_ns) = with(|driver| driver.ask("driver", question))?;
    finish(answer, slow_ns)
}

/// What a device answers.
pub fn of_device(handle: usize, question: &str) -> Result<Answer, Return> {
    let (answer, slow_ns) = with(|driver| {
        let name = driver.name(handle)?;
        driver.ask(&name, question)
    })?;
    finish(answer, slow_ns)
}

/// The lock is not held while the caller waits: other threads are answered meanwhile.
fn finish(answer: Answer, slow_ns: u64) -> Result<Answer, Return> {
    std::thread::sleep(Duration::from_nanos(slow_ns));
    match answer {
        Answer::Error(error) => Err(error),
        answer => Ok(answer),
    }
}

/// The handles of all devices.
pub fn devices() -> Result<Vec<usize>, Return> {
    listed(|script, now_ns| script.devices(now_ns))
}

/// The handles of a device's MIG instances, each at its number.
pub fn instances(handle: usize) -> Result<Vec<usize>, Return> {
    let name = with(|driver| driver.name(handle))?;
    listed(|script, now_ns| script.instances(&name, now_ns))
}

fn listed(names: impl Fn(&Script, u64) -> Vec<String>) -> Result<Vec<usize>, Return> {
    with(|driver| {
        if driver.users == 0 {
            return Err(abi::UNINITIALIZED);
        }
        let now_ns = driver.now_ns();
        let names = names(&driver.script, now_ns);
        Ok(names.iter().map(|name| driver.handle(name)).collect())
    })
}

/// A new set of events: what happens from now on.
pub fn new_set() -> usize {
    with(|driver| {
        let seen_ns = driver.now_ns();
        driver.sets.push(Some(Set { seen_ns, ..Set::default() }));
        driver.sets.len()
    })
}

/// Frees a set.
pub fn free_set(set: usize) -> Return {
    with(|driver| match set.checked_sub(1).and_then(|at| driver.sets.get_mut(at)) {
        Some(place) => {
            *place = None;
            abi::SUCCESS
        }
        None => abi::INVALID_ARGUMENT,
    })
}

/// Adds a device to a set.
pub fn register(handle: usize, set: usize) -> Return {
    if let Err(error) = of_device(handle, "events") {
        return error;
    }
    with(|driver| {
        let name = driver.name(handle);
        let set = set.checked_sub(1).and_then(|at| driver.sets.get_mut(at)?.as_mut());
        match (name, set) {
            (Ok(name), Some(set)) => {
                set.devices.push(name);
                abi::SUCCESS
            }
            _ => abi::INVALID_ARGUMENT,
        }
    })
}

/// The next event of a set: whose, and its XID. A time that was told does not pass by waiting.
pub fn wait(set: usize, timeout: Duration) -> Result<(usize, u64), Return> {
    let until = Instant::now() + timeout;
    loop {
        match with(|driver| next_event(driver, set))? {
            Some(event) => return Ok(event),
            None if Instant::now() >= until || with(|driver| driver.told_ns.is_some()) => {
                return Err(abi::TIMEOUT);
            }
            None => std::thread::sleep(LOOK),
        }
    }
}

fn next_event(driver: &mut Driver, set: usize) -> Result<Option<(usize, u64)>, Return> {
    let now_ns = driver.now_ns();
    let at = set.checked_sub(1).ok_or(abi::INVALID_ARGUMENT)?;
    let Driver { script, sets, .. } = driver;
    let set = sets.get_mut(at).and_then(Option::as_mut).ok_or(abi::INVALID_ARGUMENT)?;
    let due = script.xids(set.seen_ns, now_ns).into_iter().map(|(_, device, xid)| (device, xid));
    set.waiting.extend(due.filter(|(device, _)| set.devices.contains(device)));
    set.seen_ns = now_ns;
    if set.waiting.is_empty() {
        return Ok(None);
    }
    let (name, xid) = set.waiting.remove(0);
    Ok(Some((driver.handle(&name), xid)))
}
