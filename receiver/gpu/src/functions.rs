//! GPU functions of one process: their names, launches and dimensions.
//!
//! The kernel counts the launches of each function exactly and samples their dimensions, so that the histograms of
//! sizes have every launch, with the size of the last sampled one of its function.

mod names;
mod sizes;

use std::collections::BTreeMap;

use ::functions::name::{UNKNOWN, short};
use event::{FunctionRecord, FunctionTotal, GpuFunction};
use instrumentation::TimeRange;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use probe_abi::Grid;
use probe_abi::function::{FUNCTIONS_MAX, lane};
use semconv::metric;

pub(crate) use self::names::LaunchSeries;
use self::names::Names;
use self::sizes::Sizes;
use crate::points;

/// Functions that are named of one step.
const NAMED_MAX: usize = 16;

/// A function of a process.
#[derive(Debug, Default)]
struct Function {
    /// Short name; the module and offset of a function without a symbol.
    name: String,
    launches: u64,
    /// Blocks, and threads per block, of the last sampled launch.
    size: Option<[u64; 2]>,
    /// Launches before the first sampled one.
    unsized_launches: u64,
}

/// The functions of one process, at most as many as the kernel numbers.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    by_ordinal: BTreeMap<u32, Function>,
    names: Names,
    grid: Sizes,
    block: Sizes,
}

impl Functions {
    /// Replaces the name of a function.
    pub(crate) fn describe(&mut self, described: &GpuFunction) {
        let Some(function) = self.function(described.ordinal) else { return };
        let (name, launches) = (name(described), function.launches);
        if function.name != name {
            let before = std::mem::replace(&mut function.name, name.clone());
            self.names.rename(&before, &name, launches);
        }
    }

    /// Records the dimensions of a sampled launch.
    pub(crate) fn sample(&mut self, launch: &FunctionRecord) {
        let Some(function) = self.function(launch.ordinal) else { return };
        let size = size(launch);
        function.size = Some(size);
        let launches = std::mem::take(&mut function.unsized_launches);
        self.add_sizes(size, launches);
    }

    /// Replaces the number of launches of a function.
    pub(crate) fn replace(&mut self, total: &FunctionTotal) {
        let Some(function) = self.function(total.ordinal) else { return };
        let more = total.launches.saturating_sub(function.launches);
        function.launches += more;
        let (name, size) = (function.name.clone(), function.size);
        match size {
            Some(size) => self.add_sizes(size, more),
            None => function.unsized_launches += more,
        }
        self.names.launch(&name, more);
    }

    /// Returns the series of launches by name, at most `names_max`; `total` is the number of all launches. `None` if names
    /// are disabled, or the source does not count functions.
    pub(crate) fn launches(&mut self, names_max: usize, total: u64) -> Option<LaunchSeries> {
        let is_counted = names_max > 0 && !self.by_ordinal.is_empty();
        is_counted.then(|| self.names.collect(names_max, total))
    }

    /// Returns the histograms of sizes.
    pub(crate) fn sizes(&self, window: TimeRange) -> Vec<Metric> {
        let made = [
            (metric::GPU_CUDA_KERNEL_BLOCK_SIZE, &self.block),
            (metric::GPU_CUDA_KERNEL_GRID_SIZE, &self.grid),
        ];
        let made = made.into_iter().filter(|(_, sizes)| !sizes.is_empty());
        made.map(|(metric, sizes)| points::distributions(metric, vec![sizes.point(window)])).collect()
    }

    /// Names the functions of lanes, with their launches; at most [`NAMED_MAX`].
    pub(crate) fn name_lanes(&self, lanes: impl IntoIterator<Item = (u32, u64)>) -> Vec<String> {
        let named = lanes.into_iter().map(|(lane, launches)| format!("{launches} {}", self.of_lane(lane)));
        named.take(NAMED_MAX).collect()
    }

    /// Describes the function of a lane. Of several, the one that is launched most is named.
    fn of_lane(&self, of: u32) -> String {
        let in_lane = self.by_ordinal.iter().filter(|(ordinal, _)| lane(**ordinal) == of);
        let mut functions: Vec<&Function> = in_lane.map(|(_, function)| function).collect();
        functions.sort_by_key(|function| std::cmp::Reverse(function.launches));
        let named = functions.first().map_or(UNKNOWN, |function| function.name.as_str());
        match functions.len() {
            0 | 1 => named.to_owned(),
            count => format!("{named} (or one of {} others)", count - 1),
        }
    }

    fn function(&mut self, ordinal: u32) -> Option<&mut Function> {
        let is_numbered = u64::from(ordinal) < FUNCTIONS_MAX;
        let new = || Function { name: UNKNOWN.to_owned(), ..Function::default() };
        is_numbered.then(|| self.by_ordinal.entry(ordinal).or_insert_with(new))
    }

    fn add_sizes(&mut self, [blocks, threads]: [u64; 2], launches: u64) {
        self.grid.add(blocks, launches);
        self.block.add(threads, launches);
    }
}

/// Returns the short name of a function; without a symbol its module and offset, which are the same in each process.
fn name(described: &GpuFunction) -> String {
    match (described.symbol.as_str(), described.module.as_str()) {
        ("", "") => UNKNOWN.to_owned(),
        ("", module) => format!("{UNKNOWN} {module}+{:#x}", described.offset),
        (symbol, _) => short(symbol),
    }
}

/// Returns the blocks of a launch, and the threads per block.
fn size(launch: &FunctionRecord) -> [u64; 2] {
    let product = |sides: [u32; 3]| sides.into_iter().map(u64::from).fold(1, u64::saturating_mul);
    let counts_threads =
        probe_abi::row(launch.header.row).is_some_and(|row| row.wiring.grid == Grid::Threads);
    let blocks = match counts_threads {
        true => std::array::from_fn(|side| launch.grid[side].div_ceil(launch.block[side].max(1))),
        false => launch.grid,
    };
    [product(blocks), product(launch.block)]
}

#[cfg(test)]
mod tests;
