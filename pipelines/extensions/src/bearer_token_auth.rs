//! `bearertokenauth`: a token in a header of incoming and outgoing requests.

use std::path::PathBuf;
use std::sync::Arc;

use component::auth::{ClientAuth, Identity, ServerAuth, Unauthenticated};
use component::context::{Context, Metadata};
use component::{
    BoxFuture, BuildContext, Capabilities, Extension, ExtensionFactory, Host, Running, Stability, StartResult,
};
use config::{ConfigError, Problems, Secret, Section};
use http::HeaderName;
use subtle::{Choice, ConstantTimeEq as _};
use tokio_util::sync::CancellationToken;

use crate::secret_file::{self, SecretFile};

/// The row of this extension.
pub const FACTORY: ExtensionFactory = ExtensionFactory {
    kind: "bearertokenauth",
    aliases: &[],
    signals: &[],
    stability: Stability::Beta,
    about: "Authentication by a token in a header, on both sides. A token file may change while the collector runs.",
    example: "\
scheme: Bearer
token: ${env:BACKEND_TOKEN:-none}
",
    keys: config::keys::<BearerTokenAuthConfig>,
    build,
};

config::section! {
    /// The section of the extension.
    #[derive(Clone, Debug, PartialEq)]
    pub struct BearerTokenAuthConfig {
        /// Name of the header.
        pub header: String = "Authorization".to_owned(),
        /// Scheme written before the token. Empty writes the token alone.
        pub scheme: String = "Bearer".to_owned(),
        /// Token.
        pub token: Secret,
        /// Tokens of which a server accepts any and a client sends the first.
        pub tokens: Vec<Secret>,
        /// File of tokens, instead of `token`, one per line up to white space; read again when it changes.
        pub filename: PathBuf,
    }
}

impl BearerTokenAuthConfig {
    fn check(&self, problems: &mut Problems<'_>) {
        let has_token = !self.token.reveal().is_empty();
        let is_given = has_token || !self.tokens.is_empty() || self.has_file();
        problems.require(is_given, "", "no bearer token provided");
        problems.require(!has_token || self.tokens.is_empty(), "", {
            "either tokens or token should be provided, not both"
        });
        let is_header = HeaderName::try_from(&self.header).is_ok();
        problems.require(is_header, "header", {
            format!("{:?} is no name of a header: expected one such as Authorization", self.header)
        });
    }

    fn has_file(&self) -> bool {
        !self.filename.as_os_str().is_empty()
    }
}

fn build(_: &BuildContext, section: Section<'_>) -> Result<Box<dyn Extension>, ConfigError> {
    let (config, mut problems) = section.read::<BearerTokenAuthConfig>();
    config.check(&mut problems);
    problems.finish()?;
    Ok(Box::new(BearerTokenAuth { config }))
}

struct BearerTokenAuth {
    config: BearerTokenAuthConfig,
}

impl Extension for BearerTokenAuth {
    fn start(
        self: Box<Self>,
        _: &Host,
        stop: CancellationToken,
    ) -> BoxFuture<'static, StartResult<(Capabilities, Running)>> {
        Box::pin(async move {
            let bearer = Arc::new(Bearer::open(&self.config)?);
            let capabilities = Capabilities {
                server_auth: Some(bearer.clone()),
                client_auth: Some(bearer),
                ..Capabilities::default()
            };
            let running: Running = Box::pin(async move { stop.cancelled().await });
            Ok((capabilities, running))
        })
    }
}

/// Authenticates requests by the configured tokens.
struct Bearer {
    /// The name of the header, as configured.
    header: String,
    scheme: String,
    tokens: Tokens,
}

enum Tokens {
    Inline(Arc<[String]>),
    File(SecretFile<Arc<[String]>>),
}

impl Bearer {
    /// Opens the source of the tokens. As in the Collector, `tokens` overrides `filename`, which overrides `token`.
    fn open(config: &BearerTokenAuthConfig) -> Result<Self, String> {
        let revealed = |secrets: &[Secret]| secrets.iter().map(|s| s.reveal().to_owned()).collect();
        let tokens = match (config.tokens.as_slice(), config.has_file()) {
            ([], true) => {
                if !config.token.reveal().is_empty() {
                    tracing::warn!("a filename is specified. Configured token(s) is ignored!");
                }
                Tokens::File(secret_file::open(&config.filename, tokens_of)?)
            }
            ([], false) => Tokens::Inline(tokens_of(config.token.reveal())?),
            (tokens, has_file) => {
                if has_file {
                    tracing::warn!(file = ?config.filename, "tokens are specified. The file is ignored!");
                }
                Tokens::Inline(revealed(tokens))
            }
        };
        Ok(Bearer { header: config.header.clone(), scheme: config.scheme.clone(), tokens })
    }

    fn tokens(&self) -> Arc<[String]> {
        match &self.tokens {
            Tokens::Inline(tokens) => tokens.clone(),
            Tokens::File(file) => file.current(),
        }
    }

    /// Returns the header value for a token.
    fn value(&self, token: &str) -> String {
        match self.scheme.as_str() {
            "" => token.to_owned(),
            scheme => format!("{scheme} {token}"),
        }
    }
}

/// Parses the first word of each line as a token; the rest of the line is a comment.
fn tokens_of(content: &str) -> Result<Arc<[String]>, String> {
    let words = content.lines().filter_map(|line| line.split_whitespace().next());
    let tokens: Arc<[String]> = words.map(str::to_owned).collect();
    if tokens.is_empty() { Err("the file contains no token".to_owned()) } else { Ok(tokens) }
}

impl ServerAuth for Bearer {
    fn authenticate(&self, headers: &Metadata) -> Result<Identity, Unauthenticated> {
        let Some(value) = headers.get(&self.header).first() else {
            let header = &self.header;
            return Err(Unauthenticated(format!("missing or empty authorization header: {header}")));
        };
        // All tokens are compared, so that the time does not depend on which one matches.
        let matches =
            |found: Choice, token: &String| found | self.value(token).as_bytes().ct_eq(value.as_bytes());
        if self.tokens().iter().fold(Choice::from(0), matches).into() {
            return Ok(Identity::default());
        }
        Err(Unauthenticated("provided authorization does not match expected scheme or token".to_owned()))
    }
}

impl ClientAuth for Bearer {
    fn headers(&self, _: &Context) -> Result<Vec<(String, String)>, String> {
        let tokens = self.tokens();
        let token = tokens.first().map(String::as_str).unwrap_or_default();
        Ok(vec![(self.header.to_ascii_lowercase(), self.value(token))])
    }
}

#[cfg(test)]
mod tests;
