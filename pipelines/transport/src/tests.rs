//! Client and server over loopback: TLS and mTLS, reload, Unix sockets, proxies, time limits. Certificates are made
//! by rcgen for each test.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use config::{Node, Section};
use http::{Request, Response, Version};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::Proxy;
use crate::client::{ClientSettings, HttpClient};
use crate::connect::{Dial, UseTls};
use crate::listen::{Listener, Transport};
use crate::serve::{self, Handler, ServerSettings};
use crate::tls::{ClientTls, ClientTlsConfig, CommonTlsConfig, ServerTls, ServerTlsConfig};

/// A handler that responds with the HTTP version and the path while its gate is open.
#[derive(Clone)]
struct Echo(Arc<Semaphore>);

impl Handler for Echo {
    type Body = Full<Bytes>;

    async fn handle(
        &self,
        request: Request<Incoming>,
        _: Option<SocketAddr>,
    ) -> io::Result<Response<Self::Body>> {
        let _open = self.0.acquire().await.expect("the gate is never closed for good");
        let text = format!("{:?} {}", request.version(), request.uri());
        let body = request.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
        Ok(Response::new(Full::new([text.as_bytes(), &body].concat().into())))
    }
}

struct Server {
    address: String,
    gate: Arc<Semaphore>,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

impl Server {
    async fn start(settings: ServerSettings, tls: Option<ServerTls>) -> Self {
        Self::at("127.0.0.1:0", Transport::Tcp, settings, tls).await
    }

    async fn at(
        endpoint: &str,
        transport: Transport,
        settings: ServerSettings,
        tls: Option<ServerTls>,
    ) -> Self {
        let listener = Listener::bind(endpoint, transport).await.unwrap();
        let address = listener.address().to_string();
        let (gate, stop) = (Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)), CancellationToken::new());
        let running = tokio::spawn(serve::run(listener, tls, settings, Echo(gate.clone()), stop.clone()));
        Server { address, gate, stop, running }
    }
}

fn client(dial: Dial, is_http2: bool) -> HttpClient {
    HttpClient::new(ClientSettings {
        dial,
        is_http2,
        idle_connections_max: 0,
        idle: None,
        closes_connections: false,
        keep_alive: None,
    })
}

async fn get(client: &HttpClient, uri: &str) -> Result<String, String> {
    let request = Request::get(uri).body(crate::Parts::default()).unwrap();
    let answer = client.request(request).await.map_err(|e| e.to_string())?;
    let body = answer.into_body().collect().await.map_err(|e| e.to_string())?.to_bytes();
    Ok(String::from_utf8_lossy(&body).into_owned())
}

/// A certificate authority with a folder for its files.
struct Authority {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let authority = Authority { folder: tempfile::tempdir().unwrap(), issuer };
        std::fs::write(authority.path("ca.pem"), authority.issuer.pem()).unwrap();
        authority
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a certificate for `host` and its key.
    fn issue(&self, file: &str, host: &str) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let paths = (self.path(&format!("{file}.pem")), self.path(&format!("{file}.key")));
        std::fs::write(&paths.0, certificate.pem()).unwrap();
        std::fs::write(&paths.1, key.serialize_pem()).unwrap();
        paths
    }

    fn server(&self, host: &str) -> ServerTlsConfig {
        let (cert_file, key_file) = self.issue("server", host);
        ServerTlsConfig {
            common: CommonTlsConfig { cert_file, key_file, ..CommonTlsConfig::default() },
            ..ServerTlsConfig::default()
        }
    }

    fn client(&self) -> ClientTlsConfig {
        ClientTlsConfig {
            common: CommonTlsConfig { ca_file: self.path("ca.pem"), ..CommonTlsConfig::default() },
            ..ClientTlsConfig::default()
        }
    }
}

const BOTH: [&str; 2] = ["h2", "http/1.1"];

/// Returns the response of a server to a client, or the error of the client.
async fn connect(server: &ServerTlsConfig, client_config: &ClientTlsConfig) -> Result<String, String> {
    let tls = ServerTls::open(server, &BOTH).map_err(|e| e.to_string())?;
    let server = Server::start(ServerSettings::named("test"), Some(tls)).await;
    let tls = ClientTls::open(client_config, &BOTH).map_err(|e| e.to_string())?;
    let dial = Dial { tls: UseTls::ForHttps(tls), server_name: client_config.server_name(), ..Dial::plain() };
    get(&client(dial, false), &format!("https://{}/x", server.address)).await
}

#[tokio::test]
async fn both_http_versions_work_with_and_without_tls() {
    let server = Server::start(ServerSettings::named("test"), None).await;
    let uri = format!("http://{}/x?y", server.address);
    assert_eq!(get(&client(Dial::plain(), false), &uri).await.as_deref(), Ok("HTTP/1.1 /x?y"));
    assert_eq!(
        get(&client(Dial::plain(), true), &uri).await.unwrap(),
        format!("{:?} {uri}", Version::HTTP_2)
    );
    let authority = Authority::new();
    let heard = connect(&authority.server("127.0.0.1"), &authority.client()).await.unwrap();
    assert!(heard.starts_with("HTTP/2.0 https://"), "{heard}");
}

#[tokio::test]
async fn a_server_is_verified_by_authority_and_name() {
    let authority = Authority::new();
    let server = authority.server("collector.example");
    let trusting = authority.client();
    let named = |name: &str| ClientTlsConfig { server_name_override: name.to_owned(), ..trusting.clone() };
    assert!(connect(&server, &named("collector.example")).await.is_ok());
    let wrong = connect(&server, &named("other.example")).await.unwrap_err();
    assert!(wrong.contains("not valid for name"), "{wrong}");
    let other = Authority::new();
    let mut stranger = named("collector.example");
    stranger.common.ca_file = other.path("ca.pem");
    let wrong = connect(&server, &stranger).await.unwrap_err();
    assert!(wrong.contains("UnknownIssuer") || wrong.contains("BadSignature"), "{wrong}");
    stranger.common.ca_file = PathBuf::new();
    let careless = ClientTlsConfig { insecure_skip_verify: true, ..stranger };
    assert!(connect(&server, &careless).await.is_ok());
}

#[tokio::test]
async fn pem_may_be_in_the_configuration() {
    let authority = Authority::new();
    let files = authority.server("127.0.0.1");
    let text = |path: &Path| serde_json::Value::from(std::fs::read_to_string(path).unwrap()).to_string();
    let server = section(&format!(
        r#"{{"cert_pem": {}, "key_pem": {}}}"#,
        text(&files.common.cert_file),
        text(&files.common.key_file)
    ));
    let client = section(&format!(r#"{{"ca_pem": {}}}"#, text(&authority.path("ca.pem"))));
    let (server, client) = (Section::new("tls", &server).decode(), Section::new("tls", &client).decode());
    assert!(connect(&server.unwrap(), &client.unwrap()).await.is_ok());
}

#[tokio::test]
async fn a_client_certificate_is_required_if_configured() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let server =
        ServerTlsConfig { client_ca_file: authority.path("ca.pem"), ..authority.server("127.0.0.1") };
    let showing = |who: &Authority| {
        let (cert_file, key_file) = who.issue("client", "agent");
        let client = authority.client();
        ClientTlsConfig { common: CommonTlsConfig { cert_file, key_file, ..client.common.clone() }, ..client }
    };
    assert!(connect(&server, &showing(&authority)).await.is_ok());
    assert!(connect(&server, &authority.client()).await.is_err(), "nothing to show");
    assert!(connect(&server, &showing(&stranger)).await.is_err(), "another authority's");
}

#[tokio::test]
async fn tls_versions_must_overlap() {
    let authority = Authority::new();
    let mut server = authority.server("127.0.0.1");
    server.common.min_version = "1.3".to_owned();
    let client = |max: &str| {
        let mut client = authority.client();
        client.common.max_version = max.to_owned();
        client
    };
    assert!(connect(&server, &client("1.2")).await.is_err());
    assert!(connect(&server, &client("1.3")).await.is_ok());
    let suites = vec!["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256".to_owned()];
    let mut server = authority.server("127.0.0.1");
    server.common.max_version = "1.2".to_owned();
    server.common.cipher_suites = suites;
    assert!(connect(&server, &authority.client()).await.is_ok());
    let other = vec!["TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256".to_owned()];
    let mut client = authority.client();
    client.common.cipher_suites = other;
    assert!(connect(&server, &client).await.is_err());
}

/// A server uses renewed certificates and ignores broken ones.
#[tokio::test]
async fn renewed_certificates_are_used_by_the_next_connection() {
    let (old, new) = (Authority::new(), Authority::new());
    let mut config = ServerTlsConfig {
        client_ca_file: old.path("clients.pem"),
        client_ca_file_reload: true,
        ..old.server("127.0.0.1")
    };
    config.common.reload_interval = serde_json::from_value("1ns".into()).unwrap();
    std::fs::copy(old.path("ca.pem"), old.path("clients.pem")).unwrap();
    let tls = ServerTls::open(&config, &BOTH).unwrap();
    let server = Server::start(ServerSettings::named("test"), Some(tls)).await;
    let uri = format!("https://{}/", server.address);
    let reach = |trusted: &Authority, who: &Authority| {
        let (cert_file, key_file) = who.issue("client", "agent");
        let mut config = trusted.client();
        config.common = CommonTlsConfig { cert_file, key_file, ..config.common };
        let tls = ClientTls::open(&config, &BOTH).unwrap();
        let client = client(Dial { tls: UseTls::ForHttps(tls), ..Dial::plain() }, false);
        let uri = uri.clone();
        async move { get(&client, &uri).await.is_ok() }
    };
    assert!(reach(&old, &old).await);
    let (certificate, key) = new.issue("server", "127.0.0.1");
    std::fs::copy(certificate, &config.common.cert_file).unwrap();
    assert!(reach(&old, &old).await, "a certificate without its key is not taken");
    std::fs::copy(key, &config.common.key_file).unwrap();
    assert!(reach(&new, &old).await && !reach(&old, &old).await);
    std::fs::copy(new.path("ca.pem"), &config.client_ca_file).unwrap();
    assert!(reach(&new, &new).await && !reach(&new, &old).await);
}

#[tokio::test]
async fn requests_work_over_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let settings = ServerSettings::named("test");
    let server = Server::at(path.to_str().unwrap(), Transport::Unix, settings, None).await;
    let dial = Dial { unix: Some(path), ..Dial::plain() };
    assert_eq!(get(&client(dial, false), "http://localhost/x").await.as_deref(), Ok("HTTP/1.1 /x"));
    server.stop.cancel();
    server.running.await.unwrap();
}

/// Starts a proxy that records the requests, opens a tunnel to `to`, and requires a password.
async fn proxy(to: Option<String>) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let heard = asked.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
            let is_allowed = head.contains("proxy-authorization: basic dtpw"); // u:p
            heard.lock().unwrap().push(head.lines().next().unwrap().to_owned());
            match &to {
                Some(to) if is_allowed => {
                    stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
                    let mut to = TcpStream::connect(to).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut stream, &mut to).await;
                }
                None if is_allowed => {
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nplain").await.unwrap();
                }
                _ => {
                    stream.write_all(b"HTTP/1.1 407 Who are you\r\ncontent-length: 0\r\n\r\n").await.unwrap()
                }
            }
        }
    });
    (address, asked)
}

#[tokio::test]
async fn https_uses_a_tunnel_and_http_a_plain_proxy_request() {
    let authority = Authority::new();
    let tls = ServerTls::open(&authority.server("backend.example"), &BOTH).unwrap();
    let server = Server::start(ServerSettings::named("test"), Some(tls)).await;
    let through = |proxy: SocketAddr, user: &str| {
        let tls = ClientTls::open(&authority.client(), &["http/1.1"]).unwrap();
        let proxy = Proxy::parse(&format!("http://{user}{proxy}")).unwrap();
        client(Dial { tls: UseTls::ForHttps(tls), proxy, ..Dial::plain() }, false)
    };
    let (address, asked) = proxy(Some(server.address.clone())).await;
    let heard = get(&through(address, "u:p@"), "https://backend.example/x").await;
    assert_eq!(heard.as_deref(), Ok("HTTP/1.1 /x"));
    assert_eq!(*asked.lock().unwrap(), ["connect backend.example:443 http/1.1"]);
    let refused = get(&through(address, ""), "https://backend.example/x").await.unwrap_err();
    assert!(refused.contains("407 Who are you"), "{refused}");

    let (address, asked) = proxy(None).await;
    let heard = get(&through(address, "u:p@"), "http://backend.example/x").await;
    assert_eq!(heard.as_deref(), Ok("plain"));
    assert_eq!(*asked.lock().unwrap(), ["get http://backend.example/x http/1.1"]);
}

/// Opens a connection and reads until the server ends it.
async fn until_ended(server: &Server, begin: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(&server.address).await.unwrap();
    stream.write_all(begin).await.unwrap();
    let mut read = Vec::new();
    stream.read_to_end(&mut read).await.unwrap();
    read
}

const GET: &[u8] = b"GET /x HTTP/1.1\r\nhost: h\r\n\r\n";

#[tokio::test]
async fn idle_old_and_slow_connections_are_closed_after_their_response() {
    let soon = Some(Duration::from_millis(50));
    let named = || ServerSettings::named("test");
    for (settings, begin, is_answered) in [
        (ServerSettings { idle_max: Duration::from_millis(50), ..named() }, GET, true),
        (ServerSettings { age_max: soon, ..named() }, GET, true),
        (ServerSettings { keeps_connections: false, ..named() }, GET, true),
        (ServerSettings { head_max: soon, ..named() }, &GET[..10], false),
    ] {
        let shown = format!("{settings:?}");
        let server = Server::start(settings, None).await;
        let read = String::from_utf8(until_ended(&server, begin).await).unwrap();
        assert_eq!(read.ends_with("HTTP/1.1 /x"), is_answered, "{shown}: {read:?}");
    }
}

/// Neither sends a whole head: they held their connections for ever, and 4,096 of them all that there are.
#[tokio::test(start_paused = true)]
async fn clients_that_send_no_request_lose_their_connection_after_five_minutes() {
    let preface_and_half_a_frame = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x09\x01";
    for begin in [b"".as_slice(), b"P", &GET[..10], preface_and_half_a_frame] {
        let server = Server::start(ServerSettings::named("test"), None).await;
        let began = tokio::time::Instant::now();
        until_ended(&server, begin).await;
        assert!((300..=302).contains(&began.elapsed().as_secs()), "{:?} {begin:?}", began.elapsed());
    }
}

/// They delayed the end of the server by 10 s, as active requests do.
#[tokio::test(start_paused = true)]
async fn connections_without_a_whole_request_do_not_delay_the_end() {
    let server = Server::start(ServerSettings::named("test"), None).await;
    let mut slow = TcpStream::connect(&server.address).await.unwrap();
    slow.write_all(&GET[..10]).await.unwrap();
    // Time passes when the server has read this much and waits for more.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let began = tokio::time::Instant::now();
    server.stop.cancel();
    server.running.await.unwrap();
    assert!(began.elapsed() <= Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test]
async fn the_last_request_of_an_old_connection_has_grace() {
    let settings = ServerSettings {
        age_max: Some(Duration::from_millis(1)),
        age_grace: Some(Duration::from_millis(50)),
        ..ServerSettings::named("test")
    };
    let server = Server::start(settings, None).await;
    server.gate.forget_permits(Semaphore::MAX_PERMITS);
    let nothing: &[u8] = b"";
    assert_eq!(until_ended(&server, GET).await, nothing, "the answer never came");
}

fn section(json: &str) -> Node {
    serde_json::from_str(json).unwrap()
}

/// Returns the problems of the section `tls` of a server or a client.
fn problems(json: &str, is_server: bool) -> String {
    let node = section(json);
    let section = Section::new("x", &node);
    let mut problems = section.problems();
    if is_server {
        section.decode::<ServerTlsConfig>().unwrap().check("tls", &mut problems);
    } else {
        section.decode::<ClientTlsConfig>().unwrap().check("tls", &mut problems);
    }
    problems.finish().map_or_else(|e| e.to_string(), |()| String::new())
}

#[test]
fn problems_have_the_collectors_words() {
    let both = "provide either a CA file or the PEM-encoded string, but not both";
    for (json, is_server, want) in [
        ("{}", false, ""),
        (r#"{"ca_file": "a", "ca_pem": "b"}"#, false, both),
        (
            r#"{"cert_file": "a", "cert_pem": "b", "key_file": "k"}"#,
            false,
            "provide either certificate file or PEM",
        ),
        (r#"{"cert_file": "a", "key_file": "k", "key_pem": "k"}"#, false, "provide either key file or PEM"),
        (r#"{"cert_file": "a"}"#, false, "TLS configuration must include both certificate and key"),
        (r#"{"min_version": "1.3", "max_version": "1.2"}"#, false, "min_version cannot be greater"),
        (r#"{"cipher_suites": ["X"]}"#, false, r#"invalid TLS cipher suite: "X""#),
        (r#"{"curve_preferences": ["X"]}"#, false, "invalid curve type: X"),
        (r#"{"tpm": {"enabled": true}}"#, false, "keys in a TPM are not supported"),
        (r#"{"tpm": {"enabled": false}}"#, false, ""),
        ("{}", true, "must include both certificate and key for server connections"),
        (r#"{"cert_file": "a", "key_file": "k"}"#, true, ""),
    ] {
        let found = problems(json, is_server);
        assert!(if want.is_empty() { found.is_empty() } else { found.contains(want) }, "{json}: {found}");
    }
}

#[test]
fn plain_text_must_be_configured() {
    let parse = |json: &str| Section::new("tls", &section(json)).decode::<ClientTlsConfig>().unwrap();
    for (json, is_https, protects) in [
        ("{}", false, true),
        (r#"{"insecure": true}"#, false, false),
        (r#"{"insecure": true}"#, true, true),
        (r#"{"insecure": true, "ca_file": "a"}"#, false, true),
    ] {
        assert_eq!(parse(json).protects(is_https), protects, "{json} {is_https}");
    }
}

#[test]
fn missing_and_invalid_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let open = |ca_file: &Path| {
        let common = CommonTlsConfig { ca_file: ca_file.to_owned(), ..CommonTlsConfig::default() };
        let config = ClientTlsConfig { common, ..ClientTlsConfig::default() };
        ClientTls::open(&config, &BOTH).map(|_| ()).map_err(|e| e.to_string()).unwrap_err()
    };
    let missing = open(Path::new("/nowhere/ca.pem"));
    assert!(missing.contains("/nowhere/ca.pem"), "{missing}");
    assert!(open(&empty).contains("holds no certificate"), "{}", open(&empty));
}
