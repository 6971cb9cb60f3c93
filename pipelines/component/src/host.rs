//! The environment of a component: extensions, the meter of the collector's own telemetry, and its status.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use opentelemetry::metrics::{Meter, MeterProvider as _, NoopMeterProvider};

use crate::ComponentId;
use crate::auth::{ClientAuth, ServerAuth};
use crate::spans::Spans;
use crate::status::{ComponentStatus, State};
use crate::storage::Storage;

/// The capabilities of a running extension for other components; none by default.
#[derive(Clone, Default)]
pub struct Capabilities {
    /// Authorizes incoming requests.
    pub server_auth: Option<Arc<dyn ServerAuth>>,
    /// Authenticates outgoing requests.
    pub client_auth: Option<Arc<dyn ClientAuth>>,
    /// Storage of component state.
    pub storage: Option<Arc<dyn Storage>>,
}

/// The reason why an extension named by a component's configuration cannot be used.
#[derive(Clone, Debug, thiserror::Error, Eq, PartialEq)]
pub enum HostError {
    /// The extension does not run.
    #[error("extension \"{id}\" does not run: expected one of service::extensions: [{}]", listed(.running))]
    NotRunning {
        /// The id in the configuration.
        id: ComponentId,
        /// The extensions that run.
        running: Vec<ComponentId>,
    },
    /// The extension lacks the required capability.
    #[error("extension \"{id}\" is not a {wanted}")]
    Other {
        /// The id in the configuration.
        id: ComponentId,
        /// The required capability.
        wanted: &'static str,
    },
}

fn listed(ids: &[ComponentId]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// The environment of one component. Cheap to clone.
#[derive(Clone)]
pub struct Host {
    component: Arc<str>,
    meter: Meter,
    state: Arc<State>,
    extensions: Arc<BTreeMap<ComponentId, Capabilities>>,
}

impl Host {
    /// Creates a host without extensions.
    pub fn new(meter: Meter, state: Arc<State>) -> Self {
        Host { component: Arc::from(""), meter, state, extensions: Arc::default() }
    }

    /// Creates a host without extensions that discards metrics and status, for tests.
    pub fn detached() -> Self {
        Host::new(NoopMeterProvider::new().meter("detached"), Arc::default())
    }

    /// Returns this host with one more extension.
    pub fn with_extension(mut self, id: ComponentId, capabilities: Capabilities) -> Self {
        Arc::make_mut(&mut self.extensions).insert(id, capabilities);
        self
    }

    /// Returns this host for the component with this name in the status.
    pub fn of(&self, name: &str) -> Self {
        Host { component: Arc::from(name), ..self.clone() }
    }

    /// Returns the meter of the collector's own metrics.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Returns the state of the whole collector.
    pub fn state(&self) -> &Arc<State> {
        &self.state
    }

    /// Returns the recorder of the collector's own spans.
    pub fn spans(&self) -> &Arc<Spans> {
        self.state.spans()
    }

    /// Reports the status of this component.
    pub fn report(&self, status: ComponentStatus) {
        self.state.report(&self.component, status);
    }

    /// Returns the extension `id` that authorizes requests to this component.
    pub fn server_auth(&self, id: &ComponentId) -> Result<Arc<dyn ServerAuth>, HostError> {
        self.capability(id, "server authenticator", |capabilities| capabilities.server_auth.clone())
    }

    /// Returns the extension `id` that authenticates this component's requests.
    pub fn client_auth(&self, id: &ComponentId) -> Result<Arc<dyn ClientAuth>, HostError> {
        self.capability(id, "client authenticator", |capabilities| capabilities.client_auth.clone())
    }

    /// Returns the extension `id` that stores this component's state.
    pub fn storage(&self, id: &ComponentId) -> Result<Arc<dyn Storage>, HostError> {
        self.capability(id, "storage", |capabilities| capabilities.storage.clone())
    }

    fn capability<T>(
        &self,
        id: &ComponentId,
        wanted: &'static str,
        pick: impl Fn(&Capabilities) -> Option<T>,
    ) -> Result<T, HostError> {
        let Some(capabilities) = self.extensions.get(id) else {
            let running = self.extensions.keys().cloned().collect();
            return Err(HostError::NotRunning { id: id.clone(), running });
        };
        pick(capabilities).ok_or_else(|| HostError::Other { id: id.clone(), wanted })
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
    fn an_unusable_extension_is_named_in_the_error() {
        let id = |text| ComponentId::parse(text).unwrap();
        let host = Host::detached().with_extension(id("health_check"), Capabilities::default());
        let text = |e: HostError| e.to_string();
        assert_eq!(
            host.storage(&id("file_storage/q")).map(|_| ()).map_err(text),
            Err("extension \"file_storage/q\" does not run: expected one of service::extensions: [health_check]"
                .to_owned())
        );
        assert_eq!(
            host.client_auth(&id("health_check")).map(|_| ()).map_err(text),
            Err("extension \"health_check\" is not a client authenticator".to_owned())
        );
    }
}
