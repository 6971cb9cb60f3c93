//! The work of a step, and the shape by which it is classified.
//!
//! A shape is independent of the speed of the GPU. It contains no durations, or a slow decode could be classified as a
//! prefill and never be an outlier.

use probe_abi::fold::{COUNTERS, Counter};

use crate::baseline::Class;

/// The most graph launches of one forward pass that was captured whole, with speculative drafts.
const WHOLE_GRAPHS_MAX: u64 = 8;
/// The most eager launches in addition to whole graphs: sampling, preparation of inputs.
const EAGER_LAUNCHES_MAX: u64 = 96;

/// The counters of a step, summed over its segments.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct StepWork(pub [u64; COUNTERS]);

impl StepWork {
    /// Returns a counter.
    pub fn of(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    /// Returns true if graphs were launched and the contents of all of them are known.
    pub fn knows_graphs(&self) -> bool {
        let launches = self.of(Counter::GraphLaunches);
        launches > 0 && self.of(Counter::GraphsKnown) >= launches
    }

    /// Returns the bytes copied between host and device, copies of unknown direction included.
    pub fn copied_bytes(&self) -> u64 {
        [Counter::BytesToDevice, Counter::BytesFromDevice, Counter::BytesElsewhere]
            .into_iter()
            .fold(0, |sum, counter| sum.saturating_add(self.of(counter)))
    }

    /// Adds other work. Fingerprints wrap, as in the kernel.
    pub fn add(&mut self, other: &StepWork) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum = sum.wrapping_add(more);
        }
    }
}

/// The form in which a step's kernels are launched.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Form {
    /// No kernels: only copies and fills.
    Copies,
    /// Kernel by kernel.
    Eager,
    /// By many graphs with kernels between them: piecewise compilation, one graph or more for each layer.
    Piecewise,
    /// By one graph or a few.
    Whole,
}

/// The shape of a step, by which it is classified.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// The form of its launches.
    pub form: Form,
    /// Kernels launched.
    pub launches: u64,
    /// Graphs launched.
    pub graph_launches: u64,
    /// Threads started by kernel launches.
    pub threads: u64,
    /// Kernels in the graphs; 0 unless the contents of all graphs are known.
    pub graph_kernels: u64,
    /// Threads of the kernels in the graphs; 0 unless the contents of all graphs are known.
    pub graph_threads: u64,
    /// False if a graph with unknown contents was launched.
    pub is_known: bool,
    /// The number of copies.
    pub copies: u64,
    /// Bytes copied to the device.
    pub bytes_to_device: u64,
    /// Bytes copied from the device: the output of a step.
    pub bytes_from_device: u64,
    /// Bytes copied between host and device.
    pub copied_bytes: u64,
    /// The fingerprint of the graphs.
    pub graphs: u64,
    /// Calls captured into a graph instead of being enqueued.
    pub captured: u64,
}

/// Length of [`Shape::vector`].
pub(crate) const DIMENSIONS: usize = 5;

impl Shape {
    /// Returns the shape of this work.
    pub fn of(work: &StepWork) -> Shape {
        let (launches, graph_launches) = (work.of(Counter::Launches), work.of(Counter::GraphLaunches));
        let is_known = graph_launches == 0 || work.knows_graphs();
        let in_graphs = |counter| if is_known { work.of(counter) } else { 0 };
        Shape {
            form: form(launches, graph_launches),
            launches,
            graph_launches,
            threads: work.of(Counter::Threads),
            graph_kernels: in_graphs(Counter::GraphKernels),
            graph_threads: in_graphs(Counter::GraphThreads),
            is_known,
            copies: work.of(Counter::Copies),
            bytes_to_device: work.of(Counter::BytesToDevice),
            bytes_from_device: work.of(Counter::BytesFromDevice),
            copied_bytes: work.copied_bytes(),
            graphs: work.of(Counter::Graphs),
            captured: work.of(Counter::Captured),
        }
    }

    /// Returns false for steps without a phase: copies only, and steps that capture graphs, in which an engine runs artificial
    /// passes of every size.
    pub fn has_phase(&self) -> bool {
        self.form != Form::Copies && self.captured == 0
    }

    /// Returns the known number of kernels, launched one by one and by graphs.
    pub fn kernels(&self) -> u64 {
        self.launches.saturating_add(self.graph_kernels)
    }

    /// Returns the known number of threads of these kernels.
    pub fn kernel_threads(&self) -> u64 {
        self.threads.saturating_add(self.graph_threads)
    }

    /// Returns the threads per kernel launch.
    pub fn threads_per_launch(&self) -> f64 {
        self.threads as f64 / self.launches.max(1) as f64
    }

    /// Returns the logarithms to base 2 of the quantities that distinguish phases.
    pub(crate) fn vector(&self) -> [f64; DIMENSIONS] {
        let (kernels, threads) = (self.kernels(), self.kernel_threads());
        [kernels, threads, self.graph_launches, self.copies, self.bytes_to_device].map(log2)
    }

    /// Returns the class of steps that it is compared with.
    pub fn class(&self) -> Class {
        match self.form {
            Form::Copies => Class::of_work(0, self.copied_bytes),
            Form::Eager => Class::of_work(0, self.threads),
            Form::Piecewise => Class::of_work(self.graphs, self.threads),
            Form::Whole => Class::of_graphs(self.graphs),
        }
    }
}

fn form(launches: u64, graph_launches: u64) -> Form {
    match (launches, graph_launches) {
        (0, 0) => Form::Copies,
        (_, 0) => Form::Eager,
        (eager, graphs) if graphs <= WHOLE_GRAPHS_MAX && eager <= EAGER_LAUNCHES_MAX => Form::Whole,
        _ => Form::Piecewise,
    }
}

pub(crate) fn log2(count: u64) -> f64 {
    (count as f64 + 1.0).log2()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(rows: &[(Counter, u64)]) -> StepWork {
        let mut work = StepWork::default();
        rows.iter().for_each(|(counter, value)| work.0[*counter as usize] = *value);
        work
    }

    #[test]
    fn the_form_follows_from_the_launches() {
        let rows = [
            (0, 0, Form::Copies),
            (768, 0, Form::Eager),
            (4, 1, Form::Whole),
            (60, 5, Form::Whole),
            (52, 25, Form::Piecewise),
            (700, 2, Form::Piecewise),
        ];
        for (launches, graphs, expected) in rows {
            let shape = Shape::of(&work(&[(Counter::Launches, launches), (Counter::GraphLaunches, graphs)]));
            assert_eq!(shape.form, expected, "{launches} launches, {graphs} graphs");
        }
    }

    #[test]
    fn copies_and_capturing_steps_have_no_phase() {
        let rows = [(0, 0, false), (700, 0, true), (700, 12, false)];
        for (launches, captured, expected) in rows {
            let shape = Shape::of(&work(&[(Counter::Launches, launches), (Counter::Captured, captured)]));
            assert_eq!(shape.has_phase(), expected, "{launches} launches, {captured} captured");
        }
    }

    #[test]
    fn graph_contents_count_if_all_are_known() {
        let rows = [(1, 1, true, 404), (2, 2, true, 404), (2, 1, false, 4), (1, 0, false, 4)];
        for (launches, known, is_known, kernels) in rows {
            let work = work(&[
                (Counter::Launches, 4),
                (Counter::GraphLaunches, launches),
                (Counter::GraphsKnown, known),
                (Counter::GraphKernels, 400),
            ]);
            let shape = Shape::of(&work);
            assert_eq!((shape.is_known, shape.kernels()), (is_known, kernels), "{known} of {launches}");
            assert_eq!((shape.launches, work.knows_graphs()), (4, is_known));
        }
        let eager = work(&[(Counter::Launches, 4)]);
        assert_eq!((Shape::of(&eager).is_known, eager.knows_graphs()), (true, false));
    }

    #[test]
    fn copies_within_the_device_are_not_counted() {
        let work = work(&[
            (Counter::BytesToDevice, 1),
            (Counter::BytesFromDevice, 2),
            (Counter::BytesElsewhere, 4),
            (Counter::BytesOnDevice, 8),
        ]);
        assert_eq!(work.copied_bytes(), 7);
    }

    #[test]
    fn graphs_of_another_batch_size_are_another_class() {
        let of = |graphs| Shape::of(&work(&[(Counter::GraphLaunches, 1), (Counter::Graphs, graphs)])).class();
        assert_eq!(of(5), of(5));
        assert_ne!(of(5), of(6));
    }

    #[test]
    fn work_adds_up_and_fingerprints_wrap() {
        let mut sum = work(&[(Counter::Launches, 2), (Counter::Graphs, u64::MAX)]);
        sum.add(&work(&[(Counter::Launches, 3), (Counter::Graphs, 2)]));
        assert_eq!(sum, work(&[(Counter::Launches, 5), (Counter::Graphs, 1)]));
    }
}
