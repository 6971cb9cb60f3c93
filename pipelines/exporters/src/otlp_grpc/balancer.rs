//! Client-side load balancing: one subchannel for each address of the endpoint's name, used in turn, like gRPC's
//! `round_robin`.
//!
//! The name is resolved again when the last result is old or a connection failed. Subchannels of addresses that
//! did not change stay open.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::RwLock;
use transport::client::{ClientSettings, HttpClient};
use transport::endpoint::split_host_port;

/// Time for which a resolved name is used.
const DNS_TTL: Duration = Duration::from_secs(30);

/// Addresses of one name that are used, at most.
const SUBCHANNELS_MAX: usize = 64;

/// The subchannels of one endpoint.
pub(super) struct Balancer {
    settings: ClientSettings,
    /// The name and port to resolve, if requests are balanced.
    name: Option<String>,
    /// The client without balancing, also used if the name cannot be resolved.
    direct: HttpClient,
    resolved: RwLock<Resolved>,
    turn: AtomicUsize,
    failed: AtomicBool,
}

#[derive(Default)]
struct Resolved {
    subchannels: Vec<(SocketAddr, HttpClient)>,
    at: Option<Instant>,
}

impl Balancer {
    /// Creates a balancer that has not resolved its name yet. Only the name of a TCP target is balanced.
    pub(super) fn new(settings: ClientSettings, balances: bool) -> Self {
        let target = settings.dial.target.clone().filter(|_| balances && settings.dial.unix.is_none());
        // A proxy resolves names itself.
        let name = target.filter(|to| is_name(to) && !settings.dial.proxy.applies_to(to));
        Balancer {
            direct: HttpClient::new(settings.clone()),
            settings,
            name,
            resolved: RwLock::default(),
            turn: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
        }
    }

    /// Returns the client for the next request.
    pub(super) async fn next(&self) -> HttpClient {
        let Some(name) = &self.name else { return self.direct.clone() };
        let is_fresh = |resolved: &Resolved| {
            !self.failed.load(Ordering::Relaxed) && resolved.at.is_some_and(|at| at.elapsed() < DNS_TTL)
        };
        let resolved = self.resolved.read().await;
        if is_fresh(&resolved) {
            return self.pick(&resolved);
        }
        drop(resolved);
        let mut resolved = self.resolved.write().await;
        if !is_fresh(&resolved) {
            self.resolve(name, &mut resolved).await;
        }
        self.pick(&resolved)
    }

    /// Records a failed connection, so that the name is resolved again.
    pub(super) fn connection_failed(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    fn pick(&self, resolved: &Resolved) -> HttpClient {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let subchannel = turn.checked_rem(resolved.subchannels.len()).map(|i| &resolved.subchannels[i].1);
        subchannel.unwrap_or(&self.direct).clone()
    }

    async fn resolve(&self, name: &str, resolved: &mut Resolved) {
        resolved.at = Some(Instant::now());
        self.failed.store(false, Ordering::Relaxed);
        // After a failure, the previous addresses are used; without any, connecting reports the error.
        if let Ok(addresses) = tokio::net::lookup_host(name).await {
            self.update(&mut resolved.subchannels, addresses);
        }
    }

    fn update(
        &self,
        subchannels: &mut Vec<(SocketAddr, HttpClient)>,
        addresses: impl Iterator<Item = SocketAddr>,
    ) {
        let mut addresses: Vec<SocketAddr> = addresses.collect();
        addresses.sort();
        addresses.dedup();
        addresses.truncate(SUBCHANNELS_MAX);
        subchannels.retain(|(address, _)| addresses.contains(address));
        for address in addresses {
            if !subchannels.iter().any(|(known, _)| *known == address) {
                subchannels.push((address, self.subchannel(address)));
            }
        }
    }

    fn subchannel(&self, address: SocketAddr) -> HttpClient {
        let mut settings = self.settings.clone();
        settings.dial.target = Some(address.to_string());
        HttpClient::new(settings)
    }
}

/// Returns true if the host of a target is a name and not an address.
fn is_name(target: &str) -> bool {
    split_host_port(target).is_ok_and(|(host, _)| host.parse::<std::net::IpAddr>().is_err())
}

#[cfg(test)]
mod tests {
    use transport::connect::Dial;

    use super::*;

    fn balancer(target: &str, balances: bool) -> Balancer {
        let dial = Dial { target: Some(target.to_owned()), ..Dial::plain() };
        let settings = ClientSettings {
            dial,
            is_http2: true,
            idle_connections_max: 1,
            idle: None,
            closes_connections: false,
            keep_alive: None,
        };
        Balancer::new(settings, balances)
    }

    fn addresses(ports: &[u16]) -> Vec<SocketAddr> {
        ports.iter().map(|port| ([127, 0, 0, 1], *port).into()).collect()
    }

    #[test]
    fn unchanged_addresses_keep_their_subchannels() {
        let balancer = balancer("backend:4317", true);
        let mut kept = Vec::new();
        let mut after = |ports: &[u16]| {
            balancer.update(&mut kept, addresses(ports).into_iter());
            kept.iter().map(|(address, _)| address.port()).collect::<Vec<_>>()
        };
        assert_eq!(after(&[3, 1, 1]), [1, 3]);
        assert_eq!(after(&[1, 2]), [1, 2]);
        assert_eq!(after(&(1..100).collect::<Vec<_>>()).len(), SUBCHANNELS_MAX);
    }

    #[tokio::test]
    async fn only_names_are_balanced() {
        for (target, balances, has_subchannels) in
            [("localhost:1", true, true), ("127.0.0.1:1", true, false), ("localhost:1", false, false)]
        {
            let balancer = balancer(target, balances);
            balancer.next().await;
            let resolved = balancer.resolved.read().await;
            assert_eq!(!resolved.subchannels.is_empty(), has_subchannels, "{target} {balances}");
        }
    }
}
