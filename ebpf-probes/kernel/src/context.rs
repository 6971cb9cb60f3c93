//! The trace that a thread works for, where its process publishes it ([`probe_abi::context`]).
//!
//! Asked where a wait ends that closes something, and then only of a process with a slot: any other pays a look into
//! an array. The thread that waits is the one that runs, so what it publishes stands still.

use probe_abi::atomic::Relaxed;
use probe_abi::context::{ContextState, Published, Variable};

use crate::emit::{self, Returned};
use crate::maps::{self, VARIABLES};
use crate::regs::read_user;
use crate::task::{Task, thread_pointer};

/// Tells the trace that the caller works for, if there is one.
#[inline(always)]
pub fn tell(returned: &Returned<'_>) {
    if let Some(variable) = of(returned.task.pid) {
        tell_from(returned, variable);
    }
}

/// Nothing is published at that address any more: the process runs another program, or has ended.
#[inline(always)]
pub fn forget(task: &Task) {
    if of(task.pid).is_some()
        && let Some(slot) = VARIABLES.get_ptr_mut(Variable::slot(task.pid))
    {
        // SAFETY: a live entry; the process itself runs this program, and whoever writes the rest looks again.
        unsafe { (*slot).pid = 0 };
    }
}

#[inline(always)]
fn of(pid: u32) -> Option<&'static Variable> {
    VARIABLES.get(Variable::slot(pid)).filter(|variable| variable.pid == u64::from(pid))
}

/// Out of line: on its return the verifier forgets what it was about.
#[unsafe(no_mangle)]
#[inline(never)]
fn tell_from(returned: &Returned<'_>, variable: &Variable) {
    let is_told = match read(variable) {
        Ok(Some(published)) => match published.state() {
            ContextState::Active => emit::context(returned, &published),
            says => says == ContextState::Inactive,
        },
        Ok(None) => true,
        Err(_) => false,
    };
    if !is_told && let Some(counters) = maps::counters() {
        counters.dropped_contexts.fetch_add(1, Relaxed);
    }
}

/// The record that the current thread points to; `None` where it points to none, or never asked for the variable.
#[inline(always)]
fn read(variable: &Variable) -> Result<Option<Published>, i32> {
    let Some(address) = address(variable)? else { return Ok(None) };
    match read_user::<u64>(address)? {
        0 => Ok(None),
        record => read_user(record).map(Some),
    }
}

/// Where the current thread's variable stands; `None` where the thread has no block for its module yet.
#[inline(always)]
fn address(variable: &Variable) -> Result<Option<u64>, i32> {
    let pointer = thread_pointer();
    if variable.module == 0 {
        return Ok(Some(pointer.wrapping_add(variable.offset)));
    }
    let table: u64 = read_user(pointer.wrapping_add(variable.table_at))?;
    let last: u64 = read_user(table.wrapping_add(variable.last_at))?;
    if variable.module > last {
        return Ok(None);
    }
    let entry = variable.module.wrapping_mul(variable.entry_bytes);
    // Glibc marks a block that is not there with all ones.
    match read_user::<u64>(table.wrapping_add(entry))? {
        0 | u64::MAX => Ok(None),
        block => Ok(Some(block.wrapping_add(variable.offset))),
    }
}
