//! What a component finds around it when it starts: extensions, the meter of the collector's own telemetry,
//! and where to tell how it fares.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use opentelemetry::metrics::{Meter, MeterProvider as _, NoopMeterProvider};

use crate::ComponentId;
use crate::auth::{ClientAuth, ServerAuth};
use crate::spans::Spans;
use crate::status::{State, Status};
use crate::storage::Storage;

/// What a running extension offers to other components; by default, nothing.
#[derive(Clone, Default)]
pub struct Offer {
    /// It checks requests that come in.
    pub server_auth: Option<Arc<dyn ServerAuth>>,
    /// It signs requests that go out.
    pub client_auth: Option<Arc<dyn ClientAuth>>,
    /// It stores state.
    pub storage: Option<Arc<dyn Storage>>,
}

/// An extension that a component's configuration names and that cannot serve it.
#[derive(Clone, Debug, thiserror::Error, Eq, PartialEq)]
pub enum HostError {
    /// It does not run.
    #[error("extension \"{id}\" does not run: expected one of service::extensions: [{}]", listed(.running))]
    NotRunning {
        /// The one that was named.
        id: ComponentId,
        /// Those that run.
        running: Vec<ComponentId>,
    },
    /// It does something else.
    #[error("extension \"{id}\" is no {wanted}")]
    Other {
        /// The one that was named.
        id: ComponentId,
        /// What was asked of it.
        wanted: &'static str,
    },
}

fn listed(ids: &[ComponentId]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// The surroundings of one component. Cheap to clone.
#[derive(Clone)]
pub struct Host {
    component: Arc<str>,
    meter: Meter,
    state: Arc<State>,
    extensions: Arc<BTreeMap<ComponentId, Offer>>,
}

impl Host {
    /// A host without extensions, that measures by `meter` and tells `state`.
    pub fn new(meter: Meter, state: Arc<State>) -> Self {
        Host { component: Arc::from(""), meter, state, extensions: Arc::default() }
    }

    /// A host that keeps nothing: for components that run on their own, as tests have them.
    pub fn detached() -> Self {
        Host::new(NoopMeterProvider::new().meter("detached"), Arc::default())
    }

    /// The same host as one more extension sees it, and everything that starts after that.
    pub fn with_extension(mut self, id: ComponentId, offer: Offer) -> Self {
        Arc::make_mut(&mut self.extensions).insert(id, offer);
        self
    }

    /// The same host for the component that the log calls `name`.
    pub fn of(&self, name: &str) -> Self {
        Host { component: Arc::from(name), ..self.clone() }
    }

    /// The meter for the collector's own metrics, whose names begin with `otelcol_`.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// The state of the whole collector.
    pub fn state(&self) -> &Arc<State> {
        &self.state
    }

    /// The recorder of the collector's own spans.
    pub fn spans(&self) -> &Arc<Spans> {
        self.state.spans()
    }

    /// Tells how this component fares.
    pub fn report(&self, status: Status) {
        self.state.report(&self.component, status);
    }

    /// The extension that checks requests for this component.
    pub fn server_auth(&self, id: &ComponentId) -> Result<Arc<dyn ServerAuth>, HostError> {
        self.offered(id, "server authenticator", |offer| offer.server_auth.clone())
    }

    /// The extension that signs this component's requests.
    pub fn client_auth(&self, id: &ComponentId) -> Result<Arc<dyn ClientAuth>, HostError> {
        self.offered(id, "client authenticator", |offer| offer.client_auth.clone())
    }

    /// The extension that stores this component's state.
    pub fn storage(&self, id: &ComponentId) -> Result<Arc<dyn Storage>, HostError> {
        self.offered(id, "storage", |offer| offer.storage.clone())
    }

    fn offered<T>(
        &self,
        id: &ComponentId,
        wanted: &'static str,
        pick: impl Fn(&Offer) -> Option<T>,
    ) -> Result<T, HostError> {
        let Some(offer) = self.extensions.get(id) else {
            let running = self.extensions.keys().cloned().collect();
            return Err(HostError::NotRunning { id: id.clone(), running });
        };
        pick(offer).ok_or_else(|| HostError::Other { id: id.clone(), wanted })
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("component", &self.component).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extension_that_does_not_run_or_does_something_else_is_named() {
        let id = |text| ComponentId::parse(text).unwrap();
        let host = Host::detached().with_extension(id("health_check"), Offer::default());
        let told = |e: HostError| e.to_string();
        assert_eq!(
            host.storage(&id("file_storage/q")).map(|_| ()).map_err(told),
            Err("extension \"file_storage/q\" does not run: expected one of service::extensions: [health_check]"
                .to_owned())
        );
        assert_eq!(
            host.client_auth(&id("health_check")).map(|_| ()).map_err(told),
            Err("extension \"health_check\" is no client authenticator".to_owned())
        );
    }
}
