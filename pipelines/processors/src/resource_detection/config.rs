//! What the user writes for `resource_detection`, and the detectors that are made of it.

use config::{GoDuration, Node, Problems};

use super::Detector;
use super::docker::{Docker, DockerConfig};
use super::env::Env;
use super::kubernetes::{Kubernetes, KubernetesConfig};
use super::system::{System, SystemConfig};

/// The names of the detectors, those of `k8s_api` included.
const DETECTORS: [&str; 6] = ["docker", "env", "k8s_api", "k8snode", "kubernetes_node", "system"];

/// Why the section of a detector of the Collector that does not exist here has no effect.
const NO_DETECTOR: &str = "warptap has no such detector";

config::section! {
    /// The section of the processor.
    #[derive(Clone, Debug)]
    pub struct ResourceDetectionConfig {
        ..elsewhere: Elsewhere,
        /// Detectors to run, the most trusted first: `docker`, `env`, `k8s_api` (also `k8snode` and
        /// `kubernetes_node`) and `system`.
        pub detectors: Vec<String> = vec!["env".to_owned()],
        /// Whether detected attributes replace those of the data.
        pub r#override: bool = true,
        /// Longest time for the detection.
        pub timeout: GoDuration = GoDuration::from_secs(5),
        /// Interval between detections. 0 detects once, at the start.
        pub refresh_interval: GoDuration,
        /// Whether the start fails if a service that should have metadata does not answer.
        pub fail_on_missing_metadata: bool,
        /// Settings of the detector `docker`.
        pub(super) docker: DockerConfig,
        /// Settings of the detector `k8s_api`.
        pub(super) k8s_api: KubernetesConfig,
        /// Settings of the detector `k8snode`, an older name of `k8s_api`.
        pub(super) k8snode: KubernetesConfig,
        /// Settings of the detector `kubernetes_node`, another name of `k8s_api`.
        pub(super) kubernetes_node: KubernetesConfig,
        /// Settings of the detector `system`.
        pub(super) system: SystemConfig,
    }
}

/// Declares a section for each detector of the Collector that does not exist here. It may be configured, as long as
/// `detectors` does not name it.
macro_rules! elsewhere {
    ($($name:ident)*) => {
        config::section! {
            /// Sections of detectors that do not exist here.
            #[derive(Clone, Debug)]
            pub struct Elsewhere {
                $(
                    /// Settings of a detector that does not exist here.
                    $name: Option<Node> => unused NO_DETECTOR,
                )*
            }
        }
    };
}

elsewhere! {
    akamai aks alibaba_ecs azure consul digitalocean ec2 ecs eks elasticbeanstalk gcp heroku hetzner
    ibmcloud_classic ibmcloud_vpc kubeadm lambda nova openshift oraclecloud scaleway tencent_cvm upcloud vultr
}

impl ResourceDetectionConfig {
    /// Returns the detectors that `detectors` names, and adds the problems of their settings.
    pub(super) fn detectors(&self, problems: &mut Problems<'_>) -> Vec<Box<dyn Detector>> {
        self.docker.resource_attributes.check("docker", &super::docker::ATTRIBUTES, problems);
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
