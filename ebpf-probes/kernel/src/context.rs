//! Reads the trace context that a thread publishes ([`probe_abi::context`]).
//!
//! This happens when a wait ends that ends a step, and only in a process with a slot; other processes pay one access
//! to an array. The waiting thread is the current one, so its context does not change meanwhile.

use probe_abi::context::{ContextState, Published, Variable};
use probe_abi::counters::SelfCounter;

use crate::emit::{self, Returned};
use crate::maps::{self, VARIABLES};
use crate::regs::read_user;
use crate::task::{Task, thread_pointer};

/// Records the trace context of the caller, if it publishes one.
#[inline(always)]
pub fn record(returned: &Returned<'_>) {
    if let Some(variable) = of(returned.task.pid) {
        record_from(returned, variable);
    }
}

/// Frees the slot of a process that executes another program or has ended.
#[inline(always)]
pub fn free(task: &Task) {
    if of(task.pid).is_some()
        && let Some(slot) = VARIABLES.get_ptr_mut(Variable::slot(task.pid))
    {
        // SAFETY: a live entry; the process itself runs this program, and user space checks the owner before it writes the rest.
        unsafe { (*slot).pid = 0 };
    }
}

#[inline(always)]
fn of(pid: u32) -> Option<&'static Variable> {
    VARIABLES.get(Variable::slot(pid)).filter(|variable| variable.pid == u64::from(pid))
}

/// Out of line, so that the verifier forgets its state at the return.
#[unsafe(no_mangle)]
#[inline(never)]
fn record_from(returned: &Returned<'_>, variable: &Variable) {
    let is_recorded = match read(variable) {
        Ok(Some(published)) => match published.state() {
            ContextState::Active => emit::context(returned, &published),
            state => state == ContextState::Inactive,
        },
        Ok(None) => true,
        Err(_) => false,
    };
    if !is_recorded {
        maps::count(SelfCounter::TraceContextUnreadable);
    }
}

/// Reads the record that the current thread points to; `None` if it points to none, or never used the variable.
#[inline(always)]
fn read(variable: &Variable) -> Result<Option<Published>, i32> {
    let Some(address) = address(variable)? else { return Ok(None) };
    match read_user::<u64>(address)? {
        0 => Ok(None),
        published => read_user(published).map(Some),
    }
}

/// Returns the address of the current thread's variable; `None` if the thread has no block for its module yet.
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
    // Glibc marks a missing block with all ones.
    match read_user::<u64>(table.wrapping_add(entry))? {
        0 | u64::MAX => Ok(None),
        block => Ok(Some(block.wrapping_add(variable.offset))),
    }
}
