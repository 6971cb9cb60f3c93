//! `headers_setter`: sets headers of outgoing requests from the configuration, from files, or from the incoming
//! request of the data.

use std::path::PathBuf;
use std::sync::Arc;

use component::auth::ClientAuth;
use component::context::Context;
use component::{
    BoxFuture, BuildContext, Capabilities, ComponentId, Extension, ExtensionFactory, Host, Running,
    Stability, StartResult,
};
use config::{ConfigError, Problems, Secret, Section};
use http::HeaderName;
use tokio_util::sync::CancellationToken;

use crate::secret_file::{self, SecretFile, trimmed};

/// The row of this extension.
pub const FACTORY: ExtensionFactory = ExtensionFactory {
    kind: "headers_setter",
    aliases: &[],
    signals: &[],
    stability: Stability::Alpha,
    about: "Sets headers of what exporters send, from values or from the request that the data came in with.",
    example: "\
headers:
  - key: x-tenant
    from_context: x-tenant
    default_value: none
",
    keys: config::keys::<HeadersSetterConfig>,
    build,
};

config::section! {
    /// The section of the extension.
    #[derive(Clone, Debug, PartialEq)]
    pub struct HeadersSetterConfig {
        /// Changes of headers, in order.
        pub headers: Vec<HeaderConfig>,
        /// Id of an extension that sets headers first.
        pub additional_auth: Option<String>,
    }

    /// An item of the list `headers`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct HeaderConfig {
        /// `insert`, `update`, `upsert` or `delete`; any other text is `upsert`.
        pub action: String,
        /// Name of the header.
        pub key: Option<String>,
        /// Value of the header.
        pub value: Option<String>,
        /// File with the value; read again when it changes.
        pub value_file: Option<PathBuf>,
        /// Header of the incoming request that has the value.
        pub from_context: Option<String>,
        /// Attribute of the authenticated sender that has the value.
        pub from_attribute: Option<String>,
        /// Value used if the incoming request has none.
        pub default_value: Option<Secret>,
    }
}

impl HeadersSetterConfig {
    fn check(&self, problems: &mut Problems<'_>) {
        problems.require(!self.headers.is_empty(), "headers", "missing headers configuration");
        for (index, header) in self.headers.iter().enumerate() {
            header.check(&format!("headers[{index}]"), problems);
        }
        if let Some(Err(error)) = self.additional_auth.as_deref().map(ComponentId::parse) {
            problems.add("additional_auth", error.to_string());
        }
    }
}

impl HeaderConfig {
    fn check(&self, path: &str, problems: &mut Problems<'_>) {
        let key = self.key.as_deref().unwrap_or_default();
        problems.require(!key.is_empty(), path, "missing header name");
        let is_name = key.is_empty() || HeaderName::try_from(key).is_ok();
        problems.require(is_name, path, format!("{key:?} is no name of a header"));
        if self.action() == Action::Delete {
            return;
        }
        let sources = [
            self.from_context.is_some(),
            self.from_attribute.is_some(),
            self.value.is_some(),
            self.value_file.is_some(),
        ];
        let message = match sources.into_iter().filter(|is_given| *is_given).count() {
            0 => "missing header source, must be 'from_context', 'from_attribute', 'value', or 'value_file'",
            1 => return,
            _ => {
                "invalid header source, must be only one of 'from_context', 'from_attribute', 'value', or 'value_file'"
            }
        };
        problems.add(path, message);
    }

    fn action(&self) -> Action {
        let row = ACTIONS.iter().find(|(name, _)| *name == self.action);
        row.map_or(Action::Upsert, |(_, action)| *action)
    }

    fn warn_of_action(&self) {
        if !ACTIONS.iter().any(|(name, _)| *name == self.action) {
            let (key, action) = (self.key.as_deref().unwrap_or_default(), self.action.as_str());
            tracing::warn!(key, action, "The action was not provided, using 'upsert'.");
        }
    }
}

/// An operation on a header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Action {
    Delete,
    Insert,
    Update,
    Upsert,
}

const ACTIONS: [(&str, Action); 4] = [
    ("delete", Action::Delete),
    ("insert", Action::Insert),
    ("update", Action::Update),
    ("upsert", Action::Upsert),
];

fn build(_: &BuildContext, section: Section<'_>) -> Result<Box<dyn Extension>, ConfigError> {
    let (config, mut problems) = section.read::<HeadersSetterConfig>();
    config.check(&mut problems);
    problems.finish()?;
    Ok(Box::new(HeadersSetter { config }))
}

struct HeadersSetter {
    config: HeadersSetterConfig,
}

impl Extension for HeadersSetter {
    fn start(
        self: Box<Self>,
        host: &Host,
        stop: CancellationToken,
    ) -> BoxFuture<'static, StartResult<(Capabilities, Running)>> {
        let host = host.clone();
        Box::pin(async move {
            let setter = Setter::open(&self.config, &host)?;
            let capabilities =
                Capabilities { client_auth: Some(Arc::new(setter)), ..Capabilities::default() };
            let running: Running = Box::pin(async move { stop.cancelled().await });
            Ok((capabilities, running))
        })
    }
}

/// Applies the configured operations in order.
struct Setter {
    steps: Vec<Step>,
    first: Option<Arc<dyn ClientAuth>>,
}

struct Step {
    action: Action,
    key: String,
    source: Source,
}

/// The source of a header value.
enum Source {
    Empty,
    Value(String),
    File(SecretFile<String>),
    Context { key: String, default: String },
    Attribute { key: String, default: String },
}

impl Setter {
    fn open(config: &HeadersSetterConfig, host: &Host) -> StartResult<Self> {
        let id = config.additional_auth.as_deref().map(ComponentId::parse).transpose()?;
        let first = id.map(|id| host.client_auth(&id)).transpose()?;
        let steps: Result<_, String> = config.headers.iter().map(Step::open).collect();
        Ok(Setter { steps: steps?, first })
    }
}

impl Step {
    fn open(config: &HeaderConfig) -> Result<Self, String> {
        config.warn_of_action();
        let key = config.key.as_deref().unwrap_or_default().to_ascii_lowercase();
        Ok(Step { action: config.action(), key, source: Source::open(config)? })
    }

    fn apply(&self, headers: &mut Vec<(String, String)>, context: &Context) -> Result<(), String> {
        let at = headers.iter().position(|(key, _)| *key == self.key);
        match (self.action, at) {
            (Action::Delete, _) => headers.retain(|(key, _)| *key != self.key),
            (Action::Insert | Action::Upsert, None) => {
                headers.push((self.key.clone(), self.source.value(context)?));
            }
            (Action::Update | Action::Upsert, Some(at)) => headers[at].1 = self.source.value(context)?,
            (Action::Insert, Some(_)) | (Action::Update, None) => {}
        }
        Ok(())
    }
}

impl Source {
    fn open(config: &HeaderConfig) -> Result<Self, String> {
        let default = || config.default_value.as_ref().map(|d| d.reveal().to_owned()).unwrap_or_default();
        let HeaderConfig { value, value_file, from_attribute, from_context, .. } = config;
        Ok(match (value, value_file, from_attribute, from_context) {
            (Some(value), ..) => Source::Value(value.clone()),
            (_, Some(path), ..) => Source::File(secret_file::open(path, trimmed)?),
            (_, _, Some(key), _) => Source::Attribute { key: key.clone(), default: default() },
            (_, _, _, Some(key)) => Source::Context { key: key.clone(), default: default() },
            (None, None, None, None) => Source::Empty,
        })
    }

    fn value(&self, context: &Context) -> Result<String, String> {
        match self {
            Source::Empty => Ok(String::new()),
            Source::Value(value) => Ok(value.clone()),
            Source::File(file) => Ok(file.current()),
            Source::Attribute { key, default } => Ok(context.identity.0.get(key).unwrap_or(default).clone()),
            Source::Context { key, default } => match context.metadata.get(key) {
                [] => Ok(default.clone()),
                [one] => Ok(one.clone()),
                several => Err(format!(
                    "failed to determine the source: {} source keys found in the context, can't determine which one to use",
                    several.len()
                )),
            },
        }
    }
}

impl ClientAuth for Setter {
    fn headers(&self, context: &Context) -> Result<Vec<(String, String)>, String> {
        let mut headers = self.first.as_ref().map_or_else(|| Ok(Vec::new()), |auth| auth.headers(context))?;
        for step in &self.steps {
            step.apply(&mut headers, context)?;
        }
        Ok(headers)
    }
}

#[cfg(test)]
mod tests;
