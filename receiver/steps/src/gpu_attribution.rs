//! The GPU that a step ran on, and the reasons that throttled its clocks meanwhile.
//!
//! A driver is polled periodically, so the clocks during a step are known at the next sample. An outlier waits for that
//! sample, at most [`WAIT_NS`]; every other step is reported at once. Whether a step may be learnt from cannot wait: until
//! the next sample, the clocks are taken to be as they were at the latest one. At the start and the end of throttling the
//! steps of one interval are therefore misjudged, and outliers among them are not learnt from anyway.
//!
//! Bounded: GPUs, processes, samples of each GPU ([`clock_samples`]) and waiting outliers.

mod clock_samples;

use std::collections::{BTreeMap, VecDeque};

use event::{Clocks, Device, Event, LauncherEnv, ProcessId};

use self::clock_samples::ClockSamples;
use crate::baseline::Outlier;
use crate::causes::Throttle;
use crate::finding::{Certainty, Finding, Gpu, Step, Throttled};
use crate::throttling::ThrottleShares;

/// GPUs of a machine; further ones are ignored.
const GPUS_MAX: usize = 64;
/// Outliers that wait for a sample. When full, the oldest is reported with what is known.
const WAITING_MAX: usize = 256;
/// The longest that an outlier waits for a sample, ns of event time.
const WAIT_NS: u64 = 1_000_000_000;
/// Processes whose visible devices are remembered; further ones are attributed by device number.
const PROCESSES_MAX: usize = 1024;

/// Variables that select and order the devices of a process, the first that is set. HIP uses CUDA's if its own is not set.
const VISIBLE: [&str; 2] = ["HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"];
/// The variable that selects devices in ROCm, below HIP: HIP numbers the devices that it leaves.
const RUNTIME: &str = "ROCR_VISIBLE_DEVICES";
/// The variable that selects the devices of a container.
const CONTAINER: &str = "NVIDIA_VISIBLE_DEVICES";
/// Values of these variables that are not a list of devices.
const NO_LIST: [&str; 4] = ["", "all", "none", "void"];

/// The GPUs of the machine, the devices visible to each process, and the outliers that wait for a clock sample.
#[derive(Clone, Debug, Default)]
pub(crate) struct GpuAttribution {
    gpus: BTreeMap<u32, KnownGpu>,
    visible: BTreeMap<ProcessId, VisibleDevices>,
    waiting: VecDeque<Step>,
}

/// The devices that the environment of a process makes visible.
#[derive(Clone, Debug, Default)]
struct VisibleDevices {
    /// Devices in its container, unordered; `None` if the variable is not a list.
    container: Option<Vec<String>>,
    /// Devices of the container that ROCm leaves, in this order.
    runtime: Option<Vec<String>>,
    /// Devices that the process uses, in its own numbering; numbers index the devices left above.
    process: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default)]
struct KnownGpu {
    device: Device,
    samples: ClockSamples,
}

impl GpuAttribution {
    /// Updates GPUs, clock samples and processes from an event, and reports the outliers that waited for it.
    pub(crate) fn observe(&mut self, event: &Event, out: &mut Vec<Finding>) {
        match event {
            Event::Device(device) => self.describe(device),
            Event::Clocks(clocks) => self.sample(clocks),
            Event::LauncherEnv(env) => self.launched(env),
            Event::Exit { process, .. } => {
                self.release(out, |_, step| step.process == *process);
                self.visible.remove(process);
            }
            _ => {}
        }
        let Some(now_ns) = event.at_ns() else { return };
        let is_over = |step: &Step| now_ns > step.end_ns.saturating_add(WAIT_NS);
        if matches!(event, Event::Clocks(_)) || self.waiting.front().is_some_and(is_over) {
            self.release(out, |all, step| all.is_sampled(step) || is_over(step));
        }
    }

    /// Reports a step. An outlier whose GPU is polled but not yet sampled waits for the next sample.
    pub(crate) fn report(&mut self, step: Step, out: &mut Vec<Finding>) {
        if step.outlier == Outlier::None || self.gpu(&step).is_none() {
            out.push(Finding::Step(step));
        } else if self.is_sampled(&step) {
            out.push(Finding::Step(self.explained(step)));
        } else {
            self.waiting.push_back(step);
            if self.waiting.len() > WAITING_MAX {
                let oldest = self.waiting.pop_front();
                out.extend(oldest.map(|step| Finding::Step(self.explained(step))));
            }
        }
    }

    /// Returns the share of a step that just ended in which each reason throttled its GPU; `None` without samples.
    pub(crate) fn throttling(&self, step: &Step) -> Option<ThrottleShares> {
        let (index, _) = self.gpu(step)?;
        self.gpus.get(&index)?.samples.shares(step.start_ns, step.end_ns)
    }

    /// Reports all waiting outliers, at the end of the source.
    pub(crate) fn finish(&mut self, out: &mut Vec<Finding>) {
        self.release(out, |_, _| true);
    }

    fn release(&mut self, out: &mut Vec<Finding>, is_due: impl Fn(&GpuAttribution, &Step) -> bool) {
        for _ in 0..self.waiting.len() {
            let Some(step) = self.waiting.pop_front() else { return };
            match is_due(self, &step) {
                true => out.push(Finding::Step(self.explained(step))),
                false => self.waiting.push_back(step),
            }
        }
    }

    fn describe(&mut self, device: &Device) {
        if self.gpus.len() < GPUS_MAX || self.gpus.contains_key(&device.index) {
            let known = self.gpus.entry(device.index).or_default();
            if known.device.id != device.id {
                known.samples = ClockSamples::default();
            }
            known.device = device.clone();
        }
    }

    fn sample(&mut self, clocks: &Clocks) {
        if let Some(known) = self.gpus.get_mut(&clocks.device) {
            known.samples.push(clocks);
        }
    }

    fn launched(&mut self, env: &LauncherEnv) {
        let list = |names: &[&str]| {
            let text = env.first(names).filter(|text| !NO_LIST.contains(text))?;
            Some(text.split(',').map(|entry| entry.trim().to_owned()).take(GPUS_MAX).collect())
        };
        let devices = VisibleDevices {
            container: list(&[CONTAINER]),
            runtime: list(&[RUNTIME]),
            process: list(&VISIBLE),
        };
        if self.visible.len() < PROCESSES_MAX || self.visible.contains_key(&env.process) {
            self.visible.insert(env.process, devices);
        }
    }

    /// Returns true if its GPU was sampled at or after the end of the step.
    fn is_sampled(&self, step: &Step) -> bool {
        let known = self.gpu(step).and_then(|(index, _)| self.gpus.get(&index));
        known.is_some_and(|known| known.samples.reach(step.end_ns))
    }

    /// Returns the GPU of a step and how certain that is.
    fn gpu(&self, step: &Step) -> Option<(u32, Certainty)> {
        let is_listed = |known: &&KnownGpu| known.device.processes.contains(&step.process.pid);
        let mut listed = self.gpus.values().filter(is_listed).map(|known| known.device.index);
        let first = listed.next();
        if let (Some(one), None) = (first, listed.next()) {
            return Some((one, Certainty::Listed));
        }
        let mut all = self.gpus.keys();
        if let (Some(one), None) = (all.next(), all.next()) {
            return Some((*one, Certainty::Only));
        }
        let found = self.by_number(step)?;
        // If the driver lists the process on several devices, this must be one of them.
        let is_on_it = || self.gpus.get(&found.0).as_ref().is_some_and(is_listed);
        (first.is_none() || is_on_it()).then_some(found)
    }

    /// Returns the GPU by its number in the process: an index into its visible devices, or, without any of the variables,
    /// into the devices in PCI bus order, which CUDA and HIP use on a machine of equal GPUs.
    fn by_number(&self, step: &Step) -> Option<(u32, Certainty)> {
        let number = usize::try_from(step.device).ok()?;
        let unset = VisibleDevices::default();
        let visible = self.visible.get(&step.process).unwrap_or(&unset);
        let is_inside = |known: &&KnownGpu| match &visible.container {
            Some(list) => list.iter().any(|entry| known.is_named(entry)),
            None => true,
        };
        let inside: Vec<&KnownGpu> = self.gpus.values().filter(is_inside).collect();
        let left = match &visible.runtime {
            Some(list) => list.iter().map_while(|entry| selected(&inside, entry)).collect(),
            None => inside,
        };
        let found = match &visible.process {
            Some(list) => selected(&left, list.get(number)?),
            None => left.get(number).copied(),
        };
        let is_set =
            [&visible.container, &visible.runtime, &visible.process].iter().any(|list| list.is_some());
        let certainty = if is_set { Certainty::Visible } else { Certainty::Order };
        found.map(|known| (known.device.index, certainty))
    }

    /// Adds to a step its GPU, the throttling during it, and its causes in the light of that.
    fn explained(&self, mut step: Step) -> Step {
        let Some((index, certainty)) = self.gpu(&step) else { return step };
        let Some(known) = self.gpus.get(&index) else { return step };
        step.gpu = Some(Gpu { id: known.device.id.clone(), index, certainty });
        step.throttled = known.samples.throttled(step.start_ns, step.end_ns);
        let Some(throttle) = least_usual(&step) else { return step };
        let facts = step.facts().with_throttle(throttle);
        step.causes = crate::causes::explain(&facts, &step.usual);
        step
    }
}

/// Returns the device that a list entry selects: by index into `devices`, or by name.
fn selected<'a>(devices: &[&'a KnownGpu], entry: &str) -> Option<&'a KnownGpu> {
    match entry.parse::<usize>() {
        Ok(at) => devices.get(at).copied(),
        Err(_) => devices.iter().find(|known| known.is_named(entry)).copied(),
    }
}

impl KnownGpu {
    /// Returns true if `entry` is its number or a prefix of its id.
    fn is_named(&self, entry: &str) -> bool {
        match entry.parse::<u32>() {
            Ok(index) => index == self.device.index,
            Err(_) => !entry.is_empty() && self.device.id.starts_with(entry),
        }
    }
}

/// Returns the throttling that exceeds its usual duration most.
fn least_usual(step: &Step) -> Option<Throttle> {
    let throttle = |most: &Throttled| Throttle {
        reason: most.reason.as_str(),
        ns: most.ns as f64,
        at_least_ns: most.at_least_ns as f64,
        at_most_ns: most.at_most_ns as f64,
        usual_ns: step.usually_throttled.of(most.reason) * step.duration_ns as f64,
    };
    let all = step.throttled.iter().map(throttle);
    all.max_by(|a, b| (a.ns - a.usual_ns).total_cmp(&(b.ns - b.usual_ns)))
}
