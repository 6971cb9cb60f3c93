use event::ProcessId;
use probe_abi::record::Header;

use super::*;

fn described(ordinal: u32, symbol: &str) -> GpuFunction {
    GpuFunction { ordinal, symbol: symbol.into(), ..GpuFunction::default() }
}

fn total(ordinal: u32, launches: u64) -> FunctionTotal {
    FunctionTotal { ordinal, launches, process: ProcessId::default(), at_ns: 0 }
}

/// Functions named by letters.
fn functions(launches: &[(&str, u64)]) -> Functions {
    let mut functions = Functions::default();
    for (ordinal, (name, launches)) in launches.iter().enumerate() {
        functions.describe(&described(ordinal as u32, name));
        functions.replace(&total(ordinal as u32, *launches));
    }
    functions
}

fn series(functions: &mut Functions, most: usize, total: u64) -> (Vec<(String, u64)>, u64) {
    let LaunchSeries { named, others } = functions.launches(most, total).unwrap();
    (named, others)
}

#[track_caller]
fn check(found: (Vec<(String, u64)>, u64), named: &[(&str, u64)], others: u64) {
    let named: Vec<(String, u64)> = named.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    assert_eq!(found, (named, others));
}

#[test]
fn the_functions_launched_most_have_series() {
    let mut all = functions(&[("a", 5), ("b", 50), ("c", 20)]);
    check(series(&mut all, 2, 80), &[("b", 50), ("c", 20)], 10);
    assert_eq!(all.launches(0, 80), None);
    assert_eq!(functions(&[]).launches(9, 80), None);
}

#[test]
fn a_late_name_leaves_what_was_reported_as_others() {
    let mut all = functions(&[("a", 100), ("b", 50)]);
    check(series(&mut all, 2, 150), &[("a", 100), ("b", 50)], 0);
    all.replace(&total(2, 30));
    check(series(&mut all, 2, 180), &[("a", 100), ("b", 50)], 30);
    all.describe(&described(2, "c"));
    all.replace(&total(2, 230));
    check(series(&mut all, 2, 380), &[("a", 100), ("c", 200)], 80);
}

#[test]
fn functions_of_one_name_share_a_series() {
    let mut all = functions(&[("a", 1), ("a", 2)]);
    check(series(&mut all, 9, 3), &[("a", 3)], 0);
}

#[test]
fn series_never_decrease_and_add_up_to_all_launches() {
    let mut all = functions(&[("a", 10), ("b", 9), ("c", 8)]);
    let (mut before, mut counts) = (BTreeMap::<String, u64>::new(), [10, 9, 8]);
    for turn in 0..50 {
        counts[turn % 3] += (turn as u64 * 37) % 90;
        (0..3).for_each(|at| all.replace(&total(at, counts[at as usize])));
        let sum: u64 = counts.iter().sum();
        let (named, others) = series(&mut all, 2, sum);
        assert_eq!(named.iter().map(|(_, count)| count).sum::<u64>() + others, sum);
        for (name, count) in named.into_iter().chain([("_OTHER".to_owned(), others)]) {
            let last = before.insert(name.clone(), count).unwrap_or_default();
            assert!(count >= last || name != "_OTHER", "{name}: {count} after {last}");
        }
    }
}

#[test]
fn launches_before_the_first_sample_have_its_size() {
    let mut all = functions(&[("a", 4)]);
    let window = TimeRange { start: 0, time: 1 };
    assert!(all.sizes(window).is_empty());
    all.sample(&FunctionRecord { grid: [8, 2, 1], block: [128, 1, 1], ..FunctionRecord::default() });
    all.replace(&total(0, 6));
    assert_eq!(all.sizes(window).len(), 2);
    assert_eq!((all.grid.point(window).count, all.grid.point(window).sum), (6, Some(96.0)));
}

#[test]
fn grids_in_threads_are_counted_in_blocks() {
    let row = probe_abi::PROBES.iter().find(|p| p.wiring.grid == Grid::Threads).unwrap().id;
    let header = Header { row, ..Header::default() };
    let launch =
        FunctionRecord { header, grid: [1000, 1, 1], block: [256, 1, 1], ..FunctionRecord::default() };
    assert_eq!(size(&launch), [4, 256]);
}

#[test]
fn lanes_are_named_by_their_functions() {
    let mut all = functions(&[("a", 1), ("b", 1)]);
    all.describe(&described(63, "a63"));
    assert_eq!(all.name_lanes([(1, 40), (0, 3), (9, 2)]), ["40 b", "3 a (or one of 1 others)", "2 unknown"]);
    assert_eq!(all.name_lanes((0..60).map(|lane| (lane, 1))).len(), NAMED_MAX);
}

#[test]
fn functions_without_a_symbol_are_named_by_their_place() {
    let function = GpuFunction { module: "libx.so".into(), offset: 0x40, ..GpuFunction::default() };
    assert_eq!(
        (name(&function).as_str(), name(&GpuFunction::default()).as_str()),
        ("unknown libx.so+0x40", "unknown")
    );
}

#[test]
fn ordinals_that_the_kernel_does_not_give_are_ignored() {
    let mut all = functions(&[]);
    all.replace(&total(u32::MAX, 5));
    assert!(all.by_ordinal.is_empty());
}
