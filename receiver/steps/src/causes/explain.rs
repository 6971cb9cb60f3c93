//! The table of causes: each row takes a part of a step's excess, if it has evidence.
//!
//! The order has meaning: a row takes from what earlier rows left. Measured causes come first: run-queue wait, the wait for
//! peers and the time under throttled clocks. Then copies, whose bytes are measured and time is estimated. The rest of the
//! host's part is the host's own; the rest of the wait happened outside the host.

use super::Quantity::{CopiedBytes, Duration, Enqueue, PeerWait, RunQueueEnqueue, RunQueueWait, Wait};
use super::{Cause, CauseKind, Quantity, Severity, StepFacts, Throttle, Usual};

/// A smaller share of the excess is noise and not reported.
const SHARE_MIN: f64 = 0.1;
/// Bytes per nanosecond of a copy from pageable memory over PCIe, the slowest kind: copies are attributed the time that
/// they may have taken.
const COPY_BYTES_PER_NS: f64 = 6.0;
/// The multiple of the usual bytes from which copies are a cause.
const COPY_FACTOR: f64 = 2.0;
/// Bounds closer than this are reported as one value, ns.
const PRECISE_NS: f64 = 1e4;
/// One millisecond, ns.
const MS: f64 = 1e6;

/// A step, its usual quantities, and the excess of each part that is not attributed yet, ns.
struct Comparison<'a> {
    step: &'a StepFacts,
    usual: &'a Usual,
    enqueue_ns: f64,
    wait_ns: f64,
}

impl Comparison<'_> {
    fn of<'a>(step: &'a StepFacts, usual: &'a Usual) -> Comparison<'a> {
        let excess = |quantity| (step.get(quantity) - usual.get(quantity)).max(0.0);
        Comparison { step, usual, enqueue_ns: excess(Enqueue), wait_ns: excess(Wait) }
    }

    /// Returns by how much a quantity exceeds its usual value.
    fn excess(&self, quantity: Quantity) -> f64 {
        self.step.get(quantity) - self.usual.get(quantity)
    }

    /// Returns a duration and its usual value, ms.
    fn ms(&self, quantity: Quantity) -> (f64, f64) {
        (self.step.get(quantity) / MS, self.usual.get(quantity) / MS)
    }

    /// Attributes up to `ns` of the enqueue part.
    fn take_enqueue(&mut self, ns: f64) -> f64 {
        take(&mut self.enqueue_ns, ns)
    }

    /// Attributes up to `ns` of the wait part.
    fn take_wait(&mut self, ns: f64) -> f64 {
        take(&mut self.wait_ns, ns)
    }
}

fn take(from: &mut f64, ns: f64) -> f64 {
    let taken = ns.clamp(0.0, *from);
    *from -= taken;
    taken
}

/// The time that a row attributes, ns, and its evidence. A time of 0 means that the row does not apply.
type Attributed = (f64, String);

struct Row {
    kind: CauseKind,
    advice: &'static str,
    attribute: fn(&mut Comparison<'_>) -> Option<Attributed>,
}

const ROWS: &[Row] = &[
    Row {
        kind: CauseKind::Host,
        advice: "give the process CPUs of its own (cpuset, fewer neighbours, higher cpu request)",
        attribute: cpu_contention,
    },
    Row {
        kind: CauseKind::Collective,
        advice: "check the rank that arrives last at collectives: its host and its share of the work",
        attribute: peer_wait,
    },
    Row {
        kind: CauseKind::Throttle,
        advice: "check what limits the GPU: power limit and supply, cooling, configured clocks; move its work meanwhile",
        attribute: throttling,
    },
    Row {
        kind: CauseKind::Memory,
        advice: "check the step for cache or weight transfers; pin host memory and overlap copies",
        attribute: copies,
    },
    Row {
        kind: CauseKind::Host,
        advice: "profile the launching thread: garbage collection, locks, tokenisation, input preparation",
        attribute: host_work,
    },
    Row {
        kind: CauseKind::Unknown,
        advice: "compare with clocks, collectives and other processes on the same GPU",
        attribute: unexplained_wait,
    },
];

/// Returns the causes of a step's excess over `usual`, largest share first. Empty without excess, evidence, or steps to
/// compare with.
pub fn explain(step: &StepFacts, usual: &Usual) -> Vec<Cause> {
    let mut comparison = Comparison::of(step, usual);
    let excess = comparison.excess(Duration);
    if usual.count == 0 || excess <= 0.0 {
        return Vec::new();
    }
    // If one part was shorter than usual, the other's excess is larger than the step's: without a scale, shares exceed 1.
    let scale = (excess / (comparison.enqueue_ns + comparison.wait_ns)).min(1.0);
    let mut causes: Vec<Cause> = Vec::new();
    for row in ROWS {
        let Some((ns, evidence)) = (row.attribute)(&mut comparison) else { continue };
        let ns = ns * scale;
        if ns > 0.0 && ns >= SHARE_MIN * excess {
            causes.push(cause(row, ns, excess, usual, evidence));
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
        severity: Severity::of(ns, usual.get(Duration)),
        evidence,
        advice: row.advice,
    }
}

fn cpu_contention(c: &mut Comparison<'_>) -> Option<Attributed> {
    let ns = c.take_enqueue(c.excess(RunQueueEnqueue)) + c.take_wait(c.excess(RunQueueWait));
    let ((enqueue, usual_enqueue), (wait, usual_wait)) = (c.ms(RunQueueEnqueue), c.ms(RunQueueWait));
    let (waited, usual) = (enqueue + wait, usual_enqueue + usual_wait);
    Some((
        ns,
        format!("the thread was ready to run and waited {waited:.2} ms for a CPU, usually {usual:.2} ms"),
    ))
}

fn peer_wait(c: &mut Comparison<'_>) -> Option<Attributed> {
    c.step.measured(PeerWait)?;
    let ns = c.take_wait(c.excess(PeerWait));
    let (waited, usual) = c.ms(PeerWait);
    Some((ns, format!("it waited {waited:.2} ms for ranks that had not arrived, usually {usual:.2} ms")))
}

/// Attributes throttled clocks, which lengthen the wait by at most the excess of the throttled time.
fn throttling(c: &mut Comparison<'_>) -> Option<Attributed> {
    let Throttle { reason, ns, at_least_ns, at_most_ns, usual_ns } = c.step.throttle?;
    let bounds = match at_most_ns - at_least_ns < PRECISE_NS {
        true => String::new(),
        false => format!(" (between {:.2} and {:.2} ms)", at_least_ns / MS, at_most_ns / MS),
    };
    let (throttled, usual) = (ns / MS, usual_ns / MS);
    let evidence =
        format!("{reason} throttled the GPU's clocks for {throttled:.2} ms{bounds}, usually {usual:.2} ms");
    Some((c.take_wait(ns - usual_ns), evidence))
}

fn copies(c: &mut Comparison<'_>) -> Option<Attributed> {
    let (bytes, usual) = (c.step.get(CopiedBytes), c.usual.get(CopiedBytes));
    if bytes < COPY_FACTOR * usual {
        return None;
    }
    let may_cost = (bytes - usual) / COPY_BYTES_PER_NS;
    let waited = c.take_wait(may_cost);
    let ns = waited + c.take_enqueue(may_cost - waited);
    Some((ns, format!("{:.1} MB were copied, usually {:.1} MB", bytes / 1e6, usual / 1e6)))
}

fn host_work(c: &mut Comparison<'_>) -> Option<Attributed> {
    let ns = c.take_enqueue(f64::INFINITY);
    let cpu = match c.step.measured(RunQueueEnqueue) {
        Some(_) => "it did not wait for a CPU meanwhile",
        None => "whether it waited for a CPU was not measured",
    };
    let ((took, usual), left) = (c.ms(Enqueue), ns / MS);
    let evidence = format!(
        "the host took {took:.2} ms to enqueue, usually {usual:.2} ms; for the {left:.2} ms left {cpu}"
    );
    Some((ns, evidence))
}

fn unexplained_wait(c: &mut Comparison<'_>) -> Option<Attributed> {
    let ns = c.take_wait(f64::INFINITY);
    let ((waited, usual), left) = (c.ms(Wait), ns / MS);
    let evidence = format!(
        "the host waited {waited:.2} ms for the GPU, usually {usual:.2} ms, and nothing on the host explains {left:.2} ms \
         of it"
    );
    Some((ns, evidence))
}

#[cfg(test)]
mod tests;
