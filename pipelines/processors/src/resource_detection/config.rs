//! The configuration of `resource_detection`, and the detectors built from it.

use config::{GoDuration, Node, Problems};

use super::Detector;
use super::docker::{Docker, DockerConfig};
use super::env::Env;
use super::kubernetes::{Kubernetes, KubernetesConfig};
use super::system::{System, SystemConfig};

/// The names of the detectors, including the other names of `k8s_api`.
const DETECTORS: [&str; 6] = ["docker", "env", "k8s_api", "k8snode", "kubernetes_node", "system"];

/// The reason why the section of an absent detector has no effect.
const NO_DETECTOR: &str = "warptap has no such detector";

config::section! {
    /// The section of the processor.
    #[derive(Clone, Debug)]
    pub struct ResourceDetectionConfig {
        ..absent_detectors: Elsewhere,
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

/// Declares a section for each detector of the Collector that warptap lacks. It may be configured if `detectors`
/// does not name it.
macro_rules! absent_detectors {
    ($($name:ident)*) => {
        config::section! {
            /// Sections of absent detectors.
            #[derive(Clone, Debug)]
            pub struct Elsewhere {
                $(
                    /// Settings of an absent detector.
                    $name: Option<Node> => unused NO_DETECTOR,
                )*
            }
        }
    };
}

absent_detectors! {
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
