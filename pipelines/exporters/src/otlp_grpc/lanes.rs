//! The connections of an exporter: one to each address of the endpoint's name, taken in turn, as gRPC's
//! `round_robin` does, so that all members behind a name share the load.
//!
//! The one idea: a lane is a client that connects to one address. The name is looked up again when the last
//! look is old or a connection failed; lanes of addresses that are still there stay.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::RwLock;
use transport::client::{ClientSettings, HttpClient};
use transport::endpoint::split_host_port;

/// How long an answer of the name service is believed.
const LOOK_MAX: Duration = Duration::from_secs(30);

/// Addresses of one name that are used, at most.
const LANES_MAX: usize = 64;

/// The clients of one endpoint.
pub(super) struct Lanes {
    settings: ClientSettings,
    /// The name and port to look up; none where there is one way only.
    name: Option<String>,
    /// For all requests where there is one way only, or where the name cannot be looked up.
    only: HttpClient,
    found: RwLock<Found>,
    turn: AtomicUsize,
    failed: AtomicBool,
}

#[derive(Default)]
struct Found {
    lanes: Vec<(SocketAddr, HttpClient)>,
    at: Option<Instant>,
}

impl Lanes {
    /// Lanes that have looked nothing up yet; one where it is not to be balanced or cannot be.
    pub(super) fn new(settings: ClientSettings, balances: bool) -> Self {
        let target = settings.dial.target.clone().filter(|_| balances && settings.dial.unix.is_none());
        // A proxy looks names up itself.
        let name = target.filter(|to| is_name(to) && !settings.dial.proxy.applies_to(to));
        Lanes {
            only: HttpClient::new(settings.clone()),
            settings,
            name,
            found: RwLock::default(),
            turn: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
        }
    }

    /// The client for the next request.
    pub(super) async fn next(&self) -> HttpClient {
        let Some(name) = &self.name else { return self.only.clone() };
        let is_fresh = |found: &Found| {
            !self.failed.load(Ordering::Relaxed) && found.at.is_some_and(|at| at.elapsed() < LOOK_MAX)
        };
        let found = self.found.read().await;
        if is_fresh(&found) {
            return self.pick(&found);
        }
        drop(found);
        let mut found = self.found.write().await;
        if !is_fresh(&found) {
            self.look_up(name, &mut found).await;
        }
        self.pick(&found)
    }

    /// Tells that a connection failed: another look may find where to go instead.
    pub(super) fn failed(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    fn pick(&self, found: &Found) -> HttpClient {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let lane = turn.checked_rem(found.lanes.len()).map(|i| &found.lanes[i].1);
        lane.unwrap_or(&self.only).clone()
    }

    async fn look_up(&self, name: &str, found: &mut Found) {
        found.at = Some(Instant::now());
        self.failed.store(false, Ordering::Relaxed);
        // Where that fails, what was found before is still the best guess; without any, connecting says why.
        if let Ok(addresses) = tokio::net::lookup_host(name).await {
            self.update(&mut found.lanes, addresses);
        }
    }

    fn update(&self, lanes: &mut Vec<(SocketAddr, HttpClient)>, addresses: impl Iterator<Item = SocketAddr>) {
        let mut addresses: Vec<SocketAddr> = addresses.collect();
        addresses.sort();
        addresses.dedup();
        addresses.truncate(LANES_MAX);
        lanes.retain(|(address, _)| addresses.contains(address));
        for address in addresses {
            if !lanes.iter().any(|(known, _)| *known == address) {
                lanes.push((address, self.lane(address)));
            }
        }
    }

    fn lane(&self, address: SocketAddr) -> HttpClient {
        let mut settings = self.settings.clone();
        settings.dial.target = Some(address.to_string());
        HttpClient::new(settings)
    }
}

/// False of an address, which is its only one.
fn is_name(target: &str) -> bool {
    split_host_port(target).is_ok_and(|(host, _)| host.parse::<std::net::IpAddr>().is_err())
}

#[cfg(test)]
mod tests {
    use transport::connect::Dial;

    use super::*;

    fn lanes(target: &str, balances: bool) -> Lanes {
        let dial = Dial { target: Some(target.to_owned()), ..Dial::plain() };
        let settings = ClientSettings {
            dial,
            is_http2: true,
            idle_connections_max: 1,
            idle: None,
            closes_connections: false,
            keep_alive: None,
        };
        Lanes::new(settings, balances)
    }

    fn addresses(ports: &[u16]) -> Vec<SocketAddr> {
        ports.iter().map(|port| ([127, 0, 0, 1], *port).into()).collect()
    }

    #[test]
    fn addresses_that_come_and_go_leave_the_other_lanes_alone() {
        let all = lanes("backend:4317", true);
        let mut kept = Vec::new();
        let mut after = |ports: &[u16]| {
            all.update(&mut kept, addresses(ports).into_iter());
            kept.iter().map(|(address, _)| address.port()).collect::<Vec<_>>()
        };
        assert_eq!(after(&[3, 1, 1]), [1, 3]);
        assert_eq!(after(&[1, 2]), [1, 2]);
        assert_eq!(after(&(1..100).collect::<Vec<_>>()).len(), LANES_MAX);
    }

    #[tokio::test]
    async fn only_a_name_has_lanes() {
        for (target, balances, has_lanes) in
            [("localhost:1", true, true), ("127.0.0.1:1", true, false), ("localhost:1", false, false)]
        {
            let lanes = lanes(target, balances);
            lanes.next().await;
            assert_eq!(!lanes.found.read().await.lanes.is_empty(), has_lanes, "{target} {balances}");
        }
    }
}
