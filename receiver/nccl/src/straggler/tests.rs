//! Tests of windows and thresholds, round by round. Tests of whole jobs are in `tests/stragglers.rs`.

use super::*;
use crate::rounds::Arrival;

const MS: u64 = 1_000_000;
const FLOOR: u64 = 2 * MS;

/// Plays rounds of arrivals, in microseconds after the start of the round. Returns each change with its round.
fn play(straggler: &mut Straggler, rounds: &[Vec<u64>]) -> Vec<(u64, Change)> {
    let mut found = Vec::new();
    for (seq, arrivals) in rounds.iter().enumerate() {
        let begin_ns = 1_000_000 * MS;
        let arrivals: Vec<Arrival> =
            arrivals.iter().map(|us| Arrival { at_ns: begin_ns + us * 1000, waited_ns: 0 }).collect();
        let ends = || arrivals.iter().map(|a| a.at_ns);
        let round = Round {
            seq: seq as u64,
            first_ns: ends().min().unwrap(),
            last_ns: ends().max().unwrap(),
            arrived: arrivals.len(),
            arrivals,
            ..Round::default()
        };
        let mut changes = Vec::new();
        straggler.push(&round, round.arrivals.len(), FLOOR, &mut changes);
        found.extend(changes.into_iter().map(|change| (seq as u64, change)));
    }
    found
}

/// Returns rounds of four ranks with a scatter of about 0.1 ms, in which the last rank is late by this many ms.
fn rounds(late_ms: impl IntoIterator<Item = u64>) -> Vec<Vec<u64>> {
    let scatter = [[0, 120, 60, 90], [80, 0, 150, 40], [50, 110, 0, 130]];
    let round = |(n, late): (usize, u64)| {
        let mut of = scatter[n % 3].to_vec();
        of[3] += late * 1000;
        of
    };
    late_ms.into_iter().enumerate().map(round).collect()
}

#[track_caller]
fn check(late_ms: &[u64], late_in: Option<u64>, recovered_in: Option<u64>) {
    let found = play(&mut Straggler::default(), &rounds(late_ms.iter().copied()));
    let late = found.iter().find(|(_, c)| matches!(c, Change::Late { slot: 3, .. })).map(|(seq, _)| *seq);
    let recovered =
        found.iter().find(|(_, c)| matches!(c, Change::Recovered { slot: 3 })).map(|(seq, _)| *seq);
    assert_eq!((late, recovered), (late_in, recovered_in), "{found:?}");
    assert_eq!(found.len(), usize::from(late_in.is_some()) + usize::from(recovered_in.is_some()));
}

#[test]
fn three_late_arrivals_in_a_row_make_a_straggler() {
    check(&[0, 0, 0, 0, 10, 10, 10, 10], Some(6), None);
    check(&[0, 0, 0, 0, 10, 10, 0, 10, 10, 0], None, None);
    check(&[10, 10, 10], Some(2), None);
}

#[test]
fn delay_below_the_minimum_is_never_late() {
    check(&[1; 64], None, None);
}

#[test]
fn straggler_recovers_after_eight_calm_rounds() {
    let mut late = vec![10; 4];
    late.extend([0; 12]);
    // Late in rounds 0 to 3: the eight rounds up to 10 contain one of them.
    check(&late, Some(2), Some(10));
}

#[test]
fn rounds_before_a_recovery_do_not_count_again() {
    let mut late = vec![10; 30];
    late.extend([0; 9]);
    // Late again while the window of 32 still contains the rounds before the recovery.
    late.extend([10, 0, 0, 10, 0, 0, 0, 0]);
    check(&late, Some(2), Some(36));
    late.extend([10; 3]);
    let found = play(&mut Straggler::default(), &rounds(late));
    assert!(matches!(found[..], [_, _, (49, Change::Late { slot: 3, .. })]), "{found:?}");
}

#[test]
fn occasionally_late_rank_is_named_by_a_longer_window() {
    // Two of three rounds: never three in a row.
    let late: Vec<u64> = (0..40).map(|n| if n % 3 == 2 { 0 } else { 10 }).collect();
    let found = play(&mut Straggler::default(), &rounds(late));
    assert!(matches!(found[0].1, Change::Late { slot: 3, how } if how.rounds > 5), "{found:?}");
}

#[test]
fn recent_collectives_have_skew_and_lateness() {
    let mut straggler = Straggler::default();
    play(&mut straggler, &rounds([0; 40]));
    assert_eq!(straggler.seen(39, 1), Some((120_000, 120_000)));
    assert_eq!(straggler.seen(39 - ROWS as u64, 1), None);
    assert_eq!(straggler.seen(39, 4), None);
    assert!(straggler.lateness_ns(3).is_some_and(|ns| (40_000..130_000).contains(&ns)));
    assert_eq!(straggler.lateness_ns(4), None);
}

#[test]
fn reset_starts_a_new_history() {
    let mut straggler = Straggler::default();
    play(&mut straggler, &rounds([0; 40]));
    play(&mut straggler, &[vec![0, 1, 2, 3, 4]]);
    assert_eq!((straggler.seen, straggler.seen(39, 1)), (1, None));
}
