//! Listeners at `host:port` or at a Unix socket, by the Collector's keys `endpoint` and `transport`.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use config::Problems;
use tokio::net::{TcpListener, UnixListener};

use crate::endpoint::split_host_port;
use crate::stream::Stream;

/// Pause after a connection could not be accepted, for example without free file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

config::choice! {
    /// The key `transport`.
    #[derive(Default)]
    pub enum Transport {
        /// TCP over IPv4 and IPv6.
        #[default]
        Tcp = "tcp",
        /// TCP over IPv4.
        Tcp4 = "tcp4",
        /// TCP over IPv6.
        Tcp6 = "tcp6",
        /// A socket file.
        Unix = "unix",
    }
}

impl Transport {
    /// Checks that `endpoint`, the value of `key`, is valid for this transport.
    pub fn check(self, key: &str, endpoint: &str, problems: &mut Problems<'_>) {
        let wrong = match self {
            Transport::Unix if endpoint.is_empty() => Some("unix socket path cannot be empty".to_owned()),
            Transport::Unix => None,
            _ => split_host_port(endpoint).err(),
        };
        if let Some(wrong) = wrong {
            problems.add(key, wrong);
        }
    }
}

/// The address of a listener.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Address {
    /// An address and a port.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => path.display().fmt(f),
        }
    }
}

/// The reason why an address cannot be listened at.
#[derive(Debug, thiserror::Error)]
#[error("listen {transport} {endpoint}: {source}")]
pub struct ListenError {
    transport: &'static str,
    endpoint: String,
    source: io::Error,
}

/// A socket that accepts connections.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    address: Address,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Binds a socket. Of a name with several addresses, the first that is free is used, IPv4 before IPv6. A
    /// stale Unix socket of a dead process is replaced.
    pub async fn bind(endpoint: &str, transport: Transport) -> Result<Self, ListenError> {
        let bound = match transport {
            Transport::Unix => unix(Path::new(endpoint)),
            _ => tcp(endpoint, transport).await,
        };
        let name = if transport == Transport::Unix { "unix" } else { "tcp" };
        bound.map_err(|source| ListenError { transport: name, endpoint: endpoint.to_owned(), source })
    }

    /// Returns the bound address, with the port that was chosen for port 0.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Accepts the next connection; returns it with the peer address of TCP.
    pub(crate) async fn accept(&self) -> (Stream, Option<SocketAddr>) {
        loop {
            let accepted = match &self.socket {
                Socket::Tcp(listener) => {
                    listener.accept().await.map(|(stream, from)| (Stream::tcp(stream), Some(from)))
                }
                Socket::Unix(listener) => {
                    listener.accept().await.map(|(stream, _)| (Stream::new(stream), None))
                }
            };
            match accepted {
                Ok(accepted) => return accepted,
                // The peer disconnected before it was accepted, or no file descriptor is free.
                Err(error) => {
                    tracing::debug!(%error, "cannot accept a connection");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Address::Unix(path) = &self.address {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn unix(path: &Path) -> io::Result<Listener> {
    // A socket that accepts connections belongs to a running process; otherwise it is stale.
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
    if is_socket && std::os::unix::net::UnixStream::connect(path).is_err() {
        std::fs::remove_file(path)?;
    }
    let socket = Socket::Unix(UnixListener::bind(path)?);
    Ok(Listener { socket, address: Address::Unix(path.to_owned()) })
}

async fn tcp(endpoint: &str, transport: Transport) -> io::Result<Listener> {
    let mut refused = io::Error::other("the name has no address of this transport");
    for address in addresses(endpoint, transport).await? {
        match TcpListener::bind(address).await {
            Ok(listener) => {
                let address = Address::Tcp(listener.local_addr()?);
                return Ok(Listener { socket: Socket::Tcp(listener), address });
            }
            Err(e) => refused = e,
        }
    }
    Err(refused)
}

async fn addresses(endpoint: &str, transport: Transport) -> io::Result<Vec<SocketAddr>> {
    let (host, port) = split_host_port(endpoint).map_err(io::Error::other)?;
    let mut found: Vec<SocketAddr> = match host {
        // All interfaces, IPv6 (with IPv4 where the system maps it) before IPv4.
        "" => vec![([0u16; 8], port).into(), ([0u8; 4], port).into()],
        host => {
            let mut found: Vec<SocketAddr> = tokio::net::lookup_host((host, port)).await?.collect();
            found.sort_by_key(SocketAddr::is_ipv6);
            found
        }
    };
    found.retain(|address| match transport {
        Transport::Tcp4 => address.is_ipv4(),
        Transport::Tcp6 => address.is_ipv6(),
        _ => true,
    });
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_taken_address_is_an_error_that_names_it() {
        let first = Listener::bind("127.0.0.1:0", Transport::Tcp).await.unwrap();
        let taken = first.address().to_string();
        let error = Listener::bind(&taken, Transport::Tcp).await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("listen tcp {taken}: ")), "{error}");
        let wrong = Listener::bind("127.0.0.1:0", Transport::Tcp6).await.unwrap_err().to_string();
        assert!(wrong.contains("no address of this transport"), "{wrong}");
    }

    #[tokio::test]
    async fn only_stale_unix_sockets_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("otlp.sock");
        let endpoint = path.to_str().unwrap();
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "the stale socket");
        let listener = Listener::bind(endpoint, Transport::Unix).await.unwrap();
        let error = Listener::bind(endpoint, Transport::Unix).await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("listen unix {endpoint}: ")), "{error}");
        drop(listener);
        assert!(!path.exists(), "a listener removes its socket");
        std::fs::write(&path, "precious").unwrap();
        assert!(Listener::bind(endpoint, Transport::Unix).await.is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }
}
