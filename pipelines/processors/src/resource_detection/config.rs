//! What the user writes for `resource_detection`, and the detectors that are made of it.

use component::ComponentId;
use config::{GoDuration, Node, Problems};
use serde::Deserialize;

use super::Detector;
use super::docker::{Docker, DockerConfig};
use super::env::Env;
use super::kubernetes::{Kubernetes, KubernetesConfig};
use super::system::{System, SystemConfig};

/// The names of the detectors there are, `k8s_api` by its older names, too.
const DETECTORS: [&str; 6] = ["docker", "env", "k8s_api", "k8snode", "kubernetes_node", "system"];

/// Defines the configuration: what is used, and a section for each detector that the Collector has and that is
/// not here. Those may be set, as long as their detector is not asked for.
macro_rules! config {
    ($($elsewhere:ident)*) => {
        /// What the user writes.
        #[derive(Clone, Debug, Deserialize)]
        #[serde(default)]
        pub struct ResourceDetectionConfig {
            /// What to ask, the most trusted first.
            pub detectors: Vec<String>,
            /// Whether what is detected goes before what data brings.
            pub r#override: bool,
            /// How long the detection may take.
            pub timeout: GoDuration,
            /// The time between detections; 0 is never again.
            pub refresh_interval: GoDuration,
            /// Whether a service that should know and does not answer is an error.
            pub fail_on_missing_metadata: bool,
            /// The section `docker`.
            pub(super) docker: DockerConfig,
            /// The section `k8s_api`.
            pub(super) k8s_api: KubernetesConfig,
            /// The same by an older name.
            pub(super) k8snode: KubernetesConfig,
            /// The same by another name.
            pub(super) kubernetes_node: KubernetesConfig,
            /// The section `system`.
            pub(super) system: SystemConfig,
            $($elsewhere: Option<Node>,)*
        }

        impl Default for ResourceDetectionConfig {
            fn default() -> Self {
                ResourceDetectionConfig {
                    detectors: vec!["env".to_owned()],
                    r#override: true,
                    timeout: GoDuration::from_secs(5),
                    refresh_interval: GoDuration::from_secs(0),
                    fail_on_missing_metadata: false,
                    docker: DockerConfig::default(),
                    k8s_api: KubernetesConfig::default(),
                    k8snode: KubernetesConfig::default(),
                    kubernetes_node: KubernetesConfig::default(),
                    system: SystemConfig::default(),
                    $($elsewhere: None,)*
                }
            }
        }

        impl ResourceDetectionConfig {
            /// The sections that are set for detectors that are not here.
            fn of_no_effect(&self) -> Vec<&'static str> {
                let sections = [$((stringify!($elsewhere), self.$elsewhere.is_some())),*];
                sections.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name).collect()
            }
        }
    };
}

config! {
    akamai aks alibaba_ecs azure consul digitalocean ec2 ecs eks elasticbeanstalk gcp heroku hetzner
    ibmcloud_classic ibmcloud_vpc kubeadm lambda nova openshift oraclecloud scaleway tencent_cvm upcloud vultr
}

impl ResourceDetectionConfig {
    /// The detectors that are asked for, or what is wrong with them.
    pub(super) fn detectors(&self, id: &ComponentId, problems: &mut Problems<'_>) -> Vec<Box<dyn Detector>> {
        for section in self.of_no_effect() {
            tracing::debug!(processor = %id, section, "the section is of no effect: there is no such detector here");
        }
        self.docker.switches.check("docker", &super::docker::ATTRIBUTES, problems);
        self.system.check(problems);
        for (section, config) in self.kubernetes() {
            config.check(section, problems);
        }
        let mut detectors = Vec::with_capacity(self.detectors.len());
        for (index, name) in self.detectors.iter().enumerate() {
            match self.detector(name) {
                Some(detector) => detectors.push(detector),
                None => problems.add(&format!("detectors[{index}]"), {
                    format!("invalid detector key: {name:?}: expected one of {}", DETECTORS.join(", "))
                }),
            }
        }
        detectors
    }

    fn kubernetes(&self) -> [(&'static str, &KubernetesConfig); 3] {
        [("k8s_api", &self.k8s_api), ("k8snode", &self.k8snode), ("kubernetes_node", &self.kubernetes_node)]
    }

    fn detector(&self, name: &str) -> Option<Box<dyn Detector>> {
        let strict = self.fail_on_missing_metadata;
        let kubernetes = self.kubernetes().into_iter().find(|(section, _)| *section == name);
        Some(match name {
            "docker" => Box::new(Docker::new(&self.docker, strict)),
            "env" => Box::new(Env),
            "system" => Box::new(System::new(&self.system)),
            _ => Box::new(Kubernetes::new(kubernetes?.1, strict)),
        })
    }
}
