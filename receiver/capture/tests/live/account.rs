//! Every call has exactly one fate, also when the ring is full.

use capture::{MapSizes, Settings};
use event::{Account, Event};

use crate::rig::{Rig, rig, settings};

/// Allocations and frees, a record each, far more than the smallest ring holds.
const FLOOD: &str = "\
thread main
  repeat 20000
    malloc a 4096
    free a
  end
end
";

fn script(rig: &Rig, text: &str) -> String {
    let path = rig.dir.join("script");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn check(account: &Account, calls: u64) {
    assert_eq!(account.hits, calls, "hits against the calls made: {account:?}");
    assert!(account.is_balanced(), "{account:?}");
}

#[test]
fn every_hit_is_accounted_for_when_the_ring_overflows() {
    let sizes = MapSizes { ring_bytes: 16_384, ..MapSizes::default() };
    let Some(mut rig) = rig("flood", &Settings { sizes, ..settings() }) else { return };
    let script = script(&rig, FLOOD);
    let mut player = rig.player(&[&script]);
    // The ring is not read while the player runs, so that it overflows.
    player.go().unwrap();
    let calls = player.done().unwrap();
    let account = rig.capture.account();
    check(&account, calls);
    assert!(account.dropped[0] > 0 && account.delivered > 0, "{account:?}");
    rig.wait("every record that was not dropped", |rig| {
        let account = rig.capture.account();
        account.received == account.records
    });
    let lost: u64 =
        rig.events.iter().map(|e| if let Event::Lost { count, .. } = e { *count } else { 0 }).sum();
    assert_eq!(lost, account.lost(), "drops are reported as events");
    player.finish().unwrap();
}
