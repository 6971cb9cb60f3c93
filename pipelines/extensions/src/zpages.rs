//! `zpages`: pages about the state of this process, for a browser.
//!
//! A page is made from the collector's state on each request. Only the latest spans are stored for it, and only
//! while this extension runs.

mod html;
mod overview;
mod pipelines;
mod traces;
mod vars;

use component::spans::Watch;
use component::{
    BoxFuture, BuildContext, Capabilities, Extension, ExtensionFactory, Host, Running, Stability, StartResult,
};
use config::{ConfigError, GoDuration, Section};
use http::StatusCode;
use tokio_util::sync::CancellationToken;
use transport::keys::HttpServerConfig;

use crate::server::{self, Bound, HTML, JSON, Page, Pages};

/// The row of this extension.
pub const FACTORY: ExtensionFactory = ExtensionFactory {
    kind: "zpages",
    aliases: &[],
    signals: &[],
    stability: Stability::Beta,
    about: "Pages for a browser: what runs, how it fares, and where the time goes.",
    example: "\
endpoint: localhost:55679
",
    keys: config::keys::<ZPagesConfig>,
    build,
};

config::section! {
    /// The section of the extension.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ZPagesConfig {
        ..server: HttpServerConfig = HttpServerConfig {
            endpoint: "localhost:55679".to_owned(),
            read_header_timeout: GoDuration::from_secs(60),
            write_timeout: GoDuration::from_secs(30),
            idle_timeout: GoDuration::from_secs(60),
            ..HttpServerConfig::default()
        } => unused server::UNUSED,
        /// Variables of the process as JSON.
        pub expvar: ExpvarConfig,
    }

    /// The section `expvar`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ExpvarConfig {
        /// Whether `/debug/expvarz` is served.
        pub enabled: bool,
    }
}

fn build(context: &BuildContext, section: Section<'_>) -> Result<Box<dyn Extension>, ConfigError> {
    let (config, mut problems) = section.read::<ZPagesConfig>();
    config.server.check("", &mut problems);
    problems.finish()?;
    Ok(Box::new(ZPages { context: context.clone(), config }))
}

struct ZPages {
    context: BuildContext,
    config: ZPagesConfig,
}

impl Extension for ZPages {
    fn start(
        self: Box<Self>,
        host: &Host,
        stop: CancellationToken,
    ) -> BoxFuture<'static, StartResult<(Capabilities, Running)>> {
        let host = host.clone();
        Box::pin(async move {
            let name = self.context.id.to_string();
            let bound = Bound::open(&self.config.server, &name, &host).await?;
            let shown = Shown::new(host, self.context.version, self.config.expvar.enabled);
            Ok((Capabilities::default(), Box::pin(bound.run(shown, stop)) as Running))
        })
    }
}

/// The state that pages are made from.
struct Shown {
    host: Host,
    version: &'static str,
    has_vars: bool,
    /// Keeps the recording of spans on.
    _watch: Watch,
}

impl Shown {
    fn new(host: Host, version: &'static str, has_vars: bool) -> Self {
        let watch = host.spans().watch();
        Shown { host, version, has_vars, _watch: watch }
    }
}

/// The path, the title and the function of a page.
type Route = (&'static str, &'static str, fn(&Shown, &str) -> String);

const ROUTES: [Route; 5] = [
    ("/debug/servicez", "Service", |shown, _| overview::service(shown)),
    ("/debug/pipelinez", "Pipelines", |shown, _| pipelines::page(shown)),
    ("/debug/extensionz", "Extensions", |shown, _| overview::extensions(shown)),
    ("/debug/featurez", "Feature gates", |shown, _| overview::features(shown)),
    ("/debug/tracez", "Spans", traces::page),
];

const VARS: &str = "/debug/expvarz";

impl Pages for Shown {
    fn page(&self, path: &str, query: &str) -> Page {
        let path = path.strip_suffix('/').unwrap_or(path);
        if let Some((path, title, make)) = ROUTES.iter().find(|(route, ..)| *route == path) {
            let body = html::page(title, path, self.has_vars, &make(self, query));
            return Page::new(StatusCode::OK, HTML, body);
        }
        match path {
            VARS if self.has_vars => Page::new(StatusCode::OK, JSON, vars::json(self)),
            "" | "/debug" => Page::redirect(ROUTES[0].0),
            _ => Page::not_found(),
        }
    }
}

#[cfg(test)]
mod tests;
