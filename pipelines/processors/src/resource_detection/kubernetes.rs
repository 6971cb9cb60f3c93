//! The detector `k8s_api`: node and cluster, queried from the API server as the pod's service account.
//!
//! The node's name is in an environment variable, `K8S_NODE_NAME` unless configured otherwise,
//! which the pod's manifest sets from `spec.nodeName`.

use std::fs;
use std::path::PathBuf;

use component::BoxFuture;
use config::Problems;
use http::header::HeaderValue;
use serde::Deserialize;
use transport::connect::{Dial, UseTls};
use transport::endpoint::join_host_port;
use transport::tls::{ClientTls, ClientTlsConfig, CommonTlsConfig};

use super::http::Api;
use super::switches::{Default as Switch, Switches};
use super::{Detector, Found, text};

/// The attributes of this detector.
pub(super) const ATTRIBUTES: [Switch; 3] =
    [("k8s.cluster.uid", true), ("k8s.node.name", true), ("k8s.node.uid", true)];

const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const NODE_VARIABLE: &str = "K8S_NODE_NAME";

config::section! {
    /// The section `k8s_api`, also named `k8snode`.
    #[derive(Clone, Debug, PartialEq)]
    pub(super) struct KubernetesConfig {
        /// Authentication at the Kubernetes API: `serviceAccount`.
        auth_type: String = "serviceAccount".to_owned(),
        /// Context of a kubeconfig file. Not supported, so it must be empty.
        context: String,
        /// Environment variable with the name of the node. Empty is `K8S_NODE_NAME`.
        node_from_env_var: String,
        /// Attributes to detect, by name.
        resource_attributes: Switches,
    }
}

impl KubernetesConfig {
    pub(super) fn check(&self, section: &str, problems: &mut Problems<'_>) {
        self.resource_attributes.check(section, &ATTRIBUTES, problems);
        let found = &self.auth_type;
        problems.require(found == "serviceAccount", &format!("{section}::auth_type"), {
            format!("auth_type {found:?} is not supported: expected \"serviceAccount\"")
        });
        problems.require(self.context.is_empty(), &format!("{section}::context"), {
            "context belongs to auth_type \"kubeConfig\", which is not supported"
        });
    }
}

pub(super) struct Kubernetes {
    node_variable: String,
    switches: Switches,
    is_strict: bool,
    account: PathBuf,
    /// Host and port, if they differ from those in the pod's environment.
    address: Option<(String, u16)>,
}

/// The required fields of a node or a namespace.
#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    uid: String,
}

impl Detector for Kubernetes {
    fn name(&self) -> &'static str {
        "k8s_api"
    }

    fn detect(&self) -> BoxFuture<'_, Result<Found, String>> {
        Box::pin(async {
            let node = self.node_name()?;
            match self.query(&node).await {
                Ok(found) => Ok(found),
                Err(why) if self.is_strict => Err(why),
                Err(why) => {
                    tracing::debug!(error = why, "kubernetes metadata unavailable");
                    Ok(Found::default())
                }
            }
        })
    }
}

impl Kubernetes {
    pub(super) fn new(config: &KubernetesConfig, is_strict: bool) -> Self {
        let set = Some(config.node_from_env_var.as_str()).filter(|name| !name.is_empty());
        Kubernetes {
            node_variable: set.unwrap_or(NODE_VARIABLE).to_owned(),
            switches: config.resource_attributes.clone(),
            is_strict,
            account: SERVICE_ACCOUNT.into(),
            address: None,
        }
    }

    fn is_on(&self, attribute: &str) -> bool {
        self.switches.is_on(attribute, &ATTRIBUTES)
    }

    fn node_name(&self) -> Result<String, String> {
        let variable = &self.node_variable;
        let name = std::env::var(variable).ok().filter(|name| !name.is_empty());
        name.ok_or_else(|| {
            format!("node name can't be found: expected it in the environment variable {variable}, from spec.nodeName")
        })
    }

    async fn query(&self, node: &str) -> Result<Found, String> {
        let server = self.server()?;
        let mut attributes = Vec::new();
        if self.is_on("k8s.node.uid") || self.is_on("k8s.node.name") {
            let got = server.get::<Object>(&format!("/api/v1/nodes/{node}")).await;
            let Metadata { name, uid } =
                got.map(|node| node.metadata).map_err(|e| format!("failed getting k8s node: {e}"))?;
            attributes.extend(self.is_on("k8s.node.uid").then(|| text("k8s.node.uid", uid)));
            attributes.extend(self.is_on("k8s.node.name").then(|| text("k8s.node.name", name)));
        }
        if self.is_on("k8s.cluster.uid") {
            // The uid of the initial namespace identifies the cluster.
            match server.get::<Object>("/api/v1/namespaces/kube-system").await {
                Ok(namespace) => attributes.push(text("k8s.cluster.uid", namespace.metadata.uid)),
                Err(e) if e.is_forbidden() => {
                    tracing::warn!(error = %e, "no permission to get the namespace kube-system, skipping k8s.cluster.uid");
                }
                Err(e) => return Err(format!("failed getting k8s cluster uid: {e}")),
            }
        }
        Ok(Found::new(attributes))
    }

    /// Returns a client of the API server with the credentials of the service account.
    fn server(&self) -> Result<Api, String> {
        let (host, port) = self.address()?;
        let token_file = self.account.join("token");
        let token = fs::read_to_string(&token_file).map_err(|e| format!("{}: {e}", token_file.display()))?;
        let authorization = HeaderValue::try_from(format!("Bearer {}", token.trim()));
        let authorization = authorization.map_err(|e| format!("{}: {e}", token_file.display()))?;
        let common = CommonTlsConfig { ca_file: self.account.join("ca.crt"), ..Default::default() };
        let tls = ClientTls::open(&ClientTlsConfig { common, ..Default::default() }, &["http/1.1"]);
        let dial = Dial { tls: UseTls::Yes(tls.map_err(|e| e.to_string())?), ..Dial::plain() };
        Ok(Api::new(dial, format!("https://{}", join_host_port(&host, port)), Some(authorization)))
    }

    /// Returns the address of the API server from the environment of the pod.
    fn address(&self) -> Result<(String, u16), String> {
        if let Some(address) = &self.address {
            return Ok(address.clone());
        }
        let variable = |name: &str| {
            std::env::var(name).map_err(|_| format!("{name} is not set: this is no pod of a cluster"))
        };
        let port = variable("KUBERNETES_SERVICE_PORT")?;
        let port = port.parse().map_err(|_| format!("KUBERNETES_SERVICE_PORT {port:?} is no port"))?;
        Ok((variable("KUBERNETES_SERVICE_HOST")?, port))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::crypto::ring;
    use tokio_rustls::TlsAcceptor;

    use super::*;
    use crate::resource_detection::tests::answer_each;

    const NODE: (&str, &str) =
        ("GET /api/v1/nodes/n1 ", r#"{"kind":"Node","metadata":{"name":"n1","uid":"u1","labels":{}}}"#);
    const CLUSTER: (&str, &str) =
        ("GET /api/v1/namespaces/kube-system ", r#"{"metadata":{"name":"kube-system","uid":"c1"}}"#);

    /// Queries a server with its own certificate and these answers; it answers 403 to all other requests.
    async fn query(answers: &'static [(&'static str, &'static str)]) -> Result<Vec<String>, String> {
        let account = tempfile::tempdir().unwrap();
        let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        fs::write(account.path().join("ca.crt"), key.cert.pem()).unwrap();
        fs::write(account.path().join("token"), "secret\n").unwrap();
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![key.cert.der().clone()],
                rustls::pki_types::PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap(),
            )
            .unwrap();
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = tokio::spawn(async move {
            let acceptor = TlsAcceptor::from(Arc::new(config));
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let stream = acceptor.accept(stream).await.unwrap();
                let request = answer_each(stream, answers).await;
                assert!(request.contains("authorization: Bearer secret\r\n"), "{request}");
            }
        });
        let kubernetes = Kubernetes {
            account: account.path().to_owned(),
            address: Some(("localhost".to_owned(), port)),
            ..Kubernetes::new(&KubernetesConfig::default(), true)
        };
        let found = kubernetes.query("n1").await;
        server.abort();
        let written =
            |a: &super::super::KeyValue| format!("{}={}", a.key, pdata::json::plain::text(a.value.as_ref()));
        found.map(|found| found.attributes.iter().map(written).collect())
    }

    #[tokio::test]
    async fn node_and_cluster_are_detected() {
        let found = query(&[NODE, CLUSTER]).await.unwrap();
        assert_eq!(found, ["k8s.node.uid=u1", "k8s.node.name=n1", "k8s.cluster.uid=c1"]);
    }

    #[tokio::test]
    async fn node_is_detected_without_rights_to_the_cluster() {
        assert_eq!(query(&[NODE]).await.unwrap(), ["k8s.node.uid=u1", "k8s.node.name=n1"]);
    }

    #[tokio::test]
    async fn missing_rights_to_the_node_are_an_error() {
        let error = query(&[CLUSTER]).await.unwrap_err();
        assert_eq!(error, "failed getting k8s node: GET /api/v1/nodes/n1: 403 Forbidden");
    }
}
