//! `basicauth`: HTTP basic authentication of incoming or outgoing requests.

mod cache;
mod htpasswd;
mod md5_crypt;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use component::auth::{ClientAuth, Identity, ServerAuth, Unauthenticated};
use component::context::{Context, Metadata};
use component::{
    BoxFuture, BuildContext, Capabilities, Extension, ExtensionFactory, Host, Running, Stability, StartResult,
};
use config::{ConfigError, Problems, Secret, Section};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio_util::sync::CancellationToken;

use crate::secret_file::{self, SecretFile, trimmed};
use cache::CredentialCache;
use htpasswd::Htpasswd;

/// The row of this extension.
pub const FACTORY: ExtensionFactory = ExtensionFactory {
    kind: "basicauth",
    aliases: &[],
    signals: &[],
    stability: Stability::Beta,
    about: "HTTP's basic authentication: lets senders in by an htpasswd file, or signs what exporters send.",
    example: "\
client_auth:
  username: ${env:BACKEND_USER:-user}
  password: ${env:BACKEND_PASSWORD:-none}
",
    keys: config::keys::<BasicAuthConfig>,
    build,
};

config::section! {
    /// The section of the extension: exactly one of its two sections must be set.
    #[derive(Clone, Debug, PartialEq)]
    pub struct BasicAuthConfig {
        /// Users that may send requests to a server.
        pub htpasswd: Option<HtpasswdConfig>,
        /// User as which requests are sent by a client.
        pub client_auth: Option<ClientAuthConfig>,
    }

    /// The section `htpasswd`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct HtpasswdConfig {
        /// htpasswd file, read again when it changes.
        pub file: PathBuf,
        /// Lines of an htpasswd file, which override those of `file`.
        pub inline: Secret,
    }

    /// The section `client_auth`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ClientAuthConfig {
        /// User name.
        pub username: String,
        /// File with the user name, instead of `username`; read again when it changes.
        pub username_file: PathBuf,
        /// Password.
        pub password: Secret,
        /// File with the password, instead of `password`; read again when it changes.
        pub password_file: PathBuf,
    }
}

const NO_SOURCE: &str = "no credential source provided";
const INVALID_FORMAT: &str = "invalid authorization format";

impl BasicAuthConfig {
    fn check(&self, problems: &mut Problems<'_>) {
        match (&self.htpasswd, &self.client_auth) {
            (Some(_), Some(_)) => {
                problems.add("", "only one of `htpasswd` or `client_auth` can be specified");
            }
            (None, None) => problems.add("", NO_SOURCE),
            (Some(HtpasswdConfig { file, inline }), None) => {
                let is_there = !file.as_os_str().is_empty() || !inline.reveal().is_empty();
                problems.require(is_there, "htpasswd", NO_SOURCE);
            }
            (None, Some(client)) => {
                // A username in a file can only be checked at start.
                let message = format!("{INVALID_FORMAT}: a username must not contain a colon");
                problems.require(!client.username.contains(':'), "client_auth::username", message);
            }
        }
    }
}

fn build(_: &BuildContext, section: Section<'_>) -> Result<Box<dyn Extension>, ConfigError> {
    let (config, mut problems) = section.read::<BasicAuthConfig>();
    config.check(&mut problems);
    problems.finish()?;
    Ok(Box::new(BasicAuth { config }))
}

struct BasicAuth {
    config: BasicAuthConfig,
}

impl Extension for BasicAuth {
    fn start(
        self: Box<Self>,
        _: &Host,
        stop: CancellationToken,
    ) -> BoxFuture<'static, StartResult<(Capabilities, Running)>> {
        Box::pin(async move {
            let capabilities = match (&self.config.htpasswd, &self.config.client_auth) {
                (Some(config), _) => Capabilities {
                    server_auth: Some(Arc::new(HtpasswdAuth::open(config)?)),
                    ..Capabilities::default()
                },
                (None, Some(config)) => Capabilities {
                    client_auth: Some(Arc::new(Login::open(config)?)),
                    ..Capabilities::default()
                },
                (None, None) => Capabilities::default(),
            };
            let running: Running = Box::pin(async move { stop.cancelled().await });
            Ok((capabilities, running))
        })
    }
}

/// Authenticates users by their passwords.
struct HtpasswdAuth {
    file: Option<SecretFile<Arc<Htpasswd>>>,
    inline: Htpasswd,
    /// The users of the file and of the section, with a cache of verified credentials.
    users: Mutex<Arc<Users>>,
}

struct Users {
    file: Option<Arc<Htpasswd>>,
    all: Htpasswd,
    cache: CredentialCache,
}

impl HtpasswdAuth {
    fn open(config: &HtpasswdConfig) -> Result<Self, String> {
        let is_named = !config.file.as_os_str().is_empty();
        let file = is_named.then(|| secret_file::open(&config.file, users_of)).transpose();
        let file = file.map_err(|e| format!("open htpasswd file: {e}"))?;
        let inline = Htpasswd::clone(&*users_of(config.inline.reveal())?);
        let users = Users { file: None, all: inline.clone(), cache: CredentialCache::default() };
        Ok(HtpasswdAuth { file, inline, users: Mutex::new(Arc::new(users)) })
    }

    /// Returns the current users.
    fn users(&self) -> Arc<Users> {
        let file = self.file.as_ref().map(SecretFile::current);
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if file != users.file {
            let all = file.as_deref().cloned().unwrap_or_default().merged(&self.inline);
            *users = Arc::new(Users { file, all, cache: CredentialCache::default() });
        }
        users.clone()
    }
}

fn users_of(content: &str) -> Result<Arc<Htpasswd>, String> {
    let (users, invalid) = Htpasswd::read(content);
    if invalid > 0 {
        tracing::warn!(
            lines = invalid,
            "ignoring htpasswd lines that are not user:password in a known format"
        );
    }
    Ok(Arc::new(users))
}

impl ServerAuth for HtpasswdAuth {
    fn authenticate(&self, headers: &Metadata) -> Result<Identity, Unauthenticated> {
        let header = headers.get("authorization").first().map(String::as_str).unwrap_or_default();
        let Credentials { user, password, raw } = Credentials::read(header).map_err(refused)?;
        let users = self.users();
        let verify = || block_in_place_if_slow(users.all.is_slow(), || users.all.verify(&user, &password));
        if !users.cache.contains_or_verify(&user, &password, verify) {
            return Err(refused("invalid credentials"));
        }
        let attributes = [("username".to_owned(), user), ("raw".to_owned(), raw)];
        Ok(Identity(attributes.into_iter().collect()))
    }
}

fn refused(why: &str) -> Unauthenticated {
    Unauthenticated(why.to_owned())
}

/// Runs work; slow work hands the other tasks of this thread over to another thread, if there is one.
fn block_in_place_if_slow<T>(is_slow: bool, work: impl FnOnce() -> T) -> T {
    let has_others = || Handle::try_current().is_ok_and(|h| h.runtime_flavor() == RuntimeFlavor::MultiThread);
    if is_slow && has_others() { tokio::task::block_in_place(work) } else { work() }
}

/// The content of a header `Authorization`.
struct Credentials {
    user: String,
    password: String,
    /// User and password in base64, as received.
    raw: String,
}

impl Credentials {
    fn read(header: &str) -> Result<Self, &'static str> {
        if header.is_empty() {
            return Err("no basic auth provided");
        }
        let scheme = header.get(..SCHEME.len()).filter(|text| text.eq_ignore_ascii_case(SCHEME));
        scheme.ok_or("invalid authorization scheme prefix")?;
        let raw = &header[SCHEME.len()..];
        let decoded = STANDARD.decode(raw).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let (user, password) = decoded.as_deref().and_then(|d| d.split_once(':')).ok_or(INVALID_FORMAT)?;
        Ok(Credentials { user: user.to_owned(), password: password.to_owned(), raw: raw.to_owned() })
    }
}

const SCHEME: &str = "Basic ";

/// The credentials of outgoing requests.
struct Login {
    user: Text,
    password: Text,
}

/// A text from the configuration or from a file.
enum Text {
    Inline(String),
    File(SecretFile<String>),
}

impl Text {
    fn open(inline: &str, file: &Path) -> Result<Self, String> {
        match file.as_os_str().is_empty() {
            true => Ok(Text::Inline(inline.to_owned())),
            false => secret_file::open(file, trimmed).map(Text::File),
        }
    }

    fn current(&self) -> String {
        match self {
            Text::Inline(text) => text.clone(),
            Text::File(file) => file.current(),
        }
    }
}

impl Login {
    fn open(config: &ClientAuthConfig) -> Result<Self, String> {
        let user = Text::open(&config.username, &config.username_file)?;
        let password = Text::open(config.password.reveal(), &config.password_file)?;
        let login = Login { user, password };
        login.header()?;
        Ok(login)
    }

    fn header(&self) -> Result<String, String> {
        let (user, password) = (self.user.current(), self.password.current());
        if user.contains(':') {
            return Err(format!("{INVALID_FORMAT}: a username must not contain a colon"));
        }
        Ok(format!("{SCHEME}{}", STANDARD.encode(format!("{user}:{password}"))))
    }
}

impl ClientAuth for Login {
    fn headers(&self, _: &Context) -> Result<Vec<(String, String)>, String> {
        Ok(vec![("authorization".to_owned(), self.header()?)])
    }
}

#[cfg(test)]
mod tests;
