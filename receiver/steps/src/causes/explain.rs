//! The rows: who may take which part of a step's excess, and on what evidence.
//!
//! Order has meaning: a row takes from what the rows before it left. Run-queue wait is measured and comes first; so is
//! the wait for other ranks, from the closer's entry until the last of them came, and then the time under slow clocks,
//! which is counted or seen; bytes are measured but their time is estimated; what remains of the host's part is the
//! host's own; what remains of the wait happened outside the host.

use super::{Cause, CauseKind, Severity, StepFacts, Throttle, Usual};

/// A smaller share of the excess is noise, not a cause.
const SHARE_MIN: f64 = 0.1;
/// Bytes per nanosecond of a copy from pageable memory over PCIe: the slowest kind, so that bytes are blamed for
/// what they may have cost and not only for what they must have.
const COPY_BYTES_PER_NS: f64 = 6.0;
/// Copied bytes are unusual from this multiple of the usual on.
const COPY_FACTOR: f64 = 2.0;
/// Bounds that are closer than this are one figure, ns.
const PRECISE_NS: f64 = 1e4;
/// One millisecond, ns.
const MS: f64 = 1e6;

/// The excess not yet explained, by part of the step, ns.
struct Rest {
    enqueue: f64,
    wait: f64,
}

impl Rest {
    fn of(step: &StepFacts, usual: &Usual) -> Rest {
        Rest {
            enqueue: (step.enqueue_ns - usual.enqueue_ns).max(0.0),
            wait: (step.wait_ns - usual.wait_ns).max(0.0),
        }
    }

    fn take_enqueue(&mut self, ns: f64) -> f64 {
        take(&mut self.enqueue, ns)
    }

    fn take_wait(&mut self, ns: f64) -> f64 {
        take(&mut self.wait, ns)
    }
}

fn take(from: &mut f64, ns: f64) -> f64 {
    let taken = ns.clamp(0.0, *from);
    *from -= taken;
    taken
}

/// What a row found.
struct Found {
    ns: f64,
    evidence: String,
}

struct Row {
    kind: CauseKind,
    advice: &'static str,
    find: fn(&StepFacts, &Usual, &mut Rest) -> Option<Found>,
}

const ROWS: &[Row] = &[
    Row {
        kind: CauseKind::Host,
        advice: "give the process CPUs of its own (cpuset, fewer neighbours, higher cpu request)",
        find: contention,
    },
    Row {
        kind: CauseKind::Collective,
        advice: "look at the rank that comes last to the collectives: its host, its share of the work",
        find: others,
    },
    Row {
        kind: CauseKind::Throttle,
        advice: "see what limits the GPU: power limit and supply, cooling, clocks that were set; move its work meanwhile",
        find: throttle,
    },
    Row {
        kind: CauseKind::Memory,
        advice: "look for cache or weight transfers in the step; pin host memory and overlap copies",
        find: copies,
    },
    Row {
        kind: CauseKind::Host,
        advice: "profile the launching thread: garbage collection, locks, tokenisation, input preparation",
        find: host,
    },
    Row {
        kind: CauseKind::Unknown,
        advice: "compare with clocks, collectives and other processes on the same GPU",
        find: device,
    },
];

/// The causes of a step's excess over `usual`, largest share first. Empty where there is no excess, nothing to
/// compare with, or no evidence.
pub fn explain(step: &StepFacts, usual: &Usual) -> Vec<Cause> {
    let excess = step.duration_ns - usual.duration_ns;
    if usual.count == 0 || excess <= 0.0 {
        return Vec::new();
    }
    let mut rest = Rest::of(step, usual);
    // Where one part was shorter than usual, the parts' excesses exceed the step's: scale, or shares pass 1.
    let scale = (excess / (rest.enqueue + rest.wait)).min(1.0);
    let mut causes: Vec<Cause> = Vec::new();
    for row in ROWS {
        let Some(found) = (row.find)(step, usual, &mut rest) else { continue };
        let ns = found.ns * scale;
        if ns >= SHARE_MIN * excess {
            causes.push(cause(row, ns, excess, usual, found.evidence));
        }
    }
    causes.sort_by(|a, b| b.share.total_cmp(&a.share));
    causes
}

fn cause(row: &Row, ns: f64, excess: f64, usual: &Usual, evidence: String) -> Cause {
    Cause {
        kind: row.kind,
        share: (ns / excess).min(1.0),
        excess_ns: ns as u64,
        severity: Severity::of(ns, usual.duration_ns),
        evidence,
        advice: row.advice,
    }
}

fn contention(step: &StepFacts, usual: &Usual, rest: &mut Rest) -> Option<Found> {
    let enqueue = step.runq_enqueue_ns.unwrap_or(0.0) - usual.runq_enqueue_ns;
    let wait = step.runq_wait_ns.unwrap_or(0.0) - usual.runq_wait_ns;
    let ns = rest.take_enqueue(enqueue) + rest.take_wait(wait);
    let seen = step.runq_enqueue_ns.unwrap_or(0.0) + step.runq_wait_ns.unwrap_or(0.0);
    let normal = usual.runq_enqueue_ns + usual.runq_wait_ns;
    let evidence = format!(
        "the thread was ready to run and waited {:.2} ms for a CPU, usually {:.2} ms",
        seen / MS,
        normal / MS
    );
    (ns > 0.0).then_some(Found { ns, evidence })
}

fn others(step: &StepFacts, usual: &Usual, rest: &mut Rest) -> Option<Found> {
    let seen = step.collective_wait_ns?;
    let ns = rest.take_wait(seen - usual.collective_wait_ns);
    let evidence = format!(
        "it waited {:.2} ms for ranks that had not come yet, usually {:.2} ms",
        seen / MS,
        usual.collective_wait_ns / MS
    );
    (ns > 0.0).then_some(Found { ns, evidence })
}

/// Slow clocks make the host wait; at most as long as they were slow, beyond what is usual.
fn throttle(step: &StepFacts, _: &Usual, rest: &mut Rest) -> Option<Found> {
    let throttle = step.throttle?;
    let ns = rest.take_wait(throttle.ns - throttle.usual_ns);
    let Throttle { reason, at_least_ns, at_most_ns, .. } = throttle;
    let bounds = match at_most_ns - at_least_ns < PRECISE_NS {
        true => String::new(),
        false => format!(" (between {:.2} and {:.2} ms)", at_least_ns / MS, at_most_ns / MS),
    };
    let evidence = format!(
        "{reason} held the GPU's clocks down for {:.2} ms{bounds}, usually {:.2} ms",
        throttle.ns / MS,
        throttle.usual_ns / MS
    );
    (ns > 0.0).then_some(Found { ns, evidence })
}

fn copies(step: &StepFacts, usual: &Usual, rest: &mut Rest) -> Option<Found> {
    if step.copied_bytes < COPY_FACTOR * usual.copied_bytes {
        return None;
    }
    let may_cost = (step.copied_bytes - usual.copied_bytes) / COPY_BYTES_PER_NS;
    let waited = rest.take_wait(may_cost);
    let ns = waited + rest.take_enqueue(may_cost - waited);
    let evidence =
        format!("{:.1} MB were copied, usually {:.1} MB", step.copied_bytes / 1e6, usual.copied_bytes / 1e6);
    (ns > 0.0).then_some(Found { ns, evidence })
}

fn host(step: &StepFacts, usual: &Usual, rest: &mut Rest) -> Option<Found> {
    let ns = rest.take_enqueue(f64::INFINITY);
    let cpu = match step.runq_enqueue_ns {
        Some(_) => "it did not wait for a CPU meanwhile",
        None => "whether it waited for a CPU was not seen",
    };
    let evidence = format!(
        "the host took {:.2} ms to enqueue, usually {:.2} ms; for the {:.2} ms left {cpu}",
        step.enqueue_ns / MS,
        usual.enqueue_ns / MS,
        ns / MS
    );
    (ns > 0.0).then_some(Found { ns, evidence })
}

fn device(step: &StepFacts, usual: &Usual, rest: &mut Rest) -> Option<Found> {
    let ns = rest.take_wait(f64::INFINITY);
    let evidence = format!(
        "the host waited {:.2} ms for the GPU, usually {:.2} ms, and nothing on the host explains {:.2} ms of it",
        step.wait_ns / MS,
        usual.wait_ns / MS,
        ns / MS
    );
    (ns > 0.0).then_some(Found { ns, evidence })
}

#[cfg(test)]
mod tests;
