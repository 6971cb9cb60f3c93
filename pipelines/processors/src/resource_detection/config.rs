//! The configuration of `resource_detection`, and the detectors built from it.

use config::{GoDuration, Node, Problems};

use super::Detector;
use super::cloud::{self, AzureConfig, Cloud, CloudConfig, Ec2Config, PLATFORMS, Platform, Settings, World};
use super::docker::{Docker, DockerConfig};
use super::env::Env;
use super::kubernetes::{Kubernetes, KubernetesConfig};
use super::switches::Switches;
use super::system::{System, SystemConfig};

/// The names of the detectors other than cloud platforms, including the older name of `k8s_api`.
const DETECTORS: [&str; 5] = ["docker", "env", "k8s_api", "k8snode", "system"];

/// The reason why the section of an absent detector has no effect.
const NO_DETECTOR: &str = "warptap has no such detector";

config::section! {
    /// The section of the processor.
    #[derive(Clone, Debug)]
    pub struct ResourceDetectionConfig {
        ..absent_detectors: Elsewhere,
        /// Detectors to run, the most trusted first: `aks`, `azure`, `docker`, `dynatrace`, `ec2`, `ecs`, `elastic_beanstalk`, `env`, `gcp`,
        /// `heroku`, `k8s_api` (also `k8snode`), `lambda` and `system`.
        pub detectors: Vec<String> = vec!["env".to_owned()],
        /// Whether detected attributes replace those of the data.
        pub r#override: bool = true,
        /// Longest time for the detection.
        pub timeout: GoDuration = GoDuration::from_secs(5),
        /// Interval between detections. 0 detects once, at the start.
        pub refresh_interval: GoDuration,
        /// Whether the start fails if a service that should have metadata does not answer.
        pub fail_on_missing_metadata: bool,
        /// Settings of the detector `aks`.
        pub(super) aks: CloudConfig,
        /// Settings of the detector `azure`.
        pub(super) azure: AzureConfig,
        /// Settings of the detector `docker`.
        pub(super) docker: DockerConfig,
        /// Settings of the detector `ec2`.
        pub(super) ec2: Ec2Config,
        /// Settings of the detector `ecs`.
        pub(super) ecs: CloudConfig,
        /// Settings of the detector `elastic_beanstalk`.
        pub(super) elastic_beanstalk: CloudConfig,
        /// Settings of the detector `elastic_beanstalk` under the key that the Collector has.
        pub(super) elasticbeanstalk: CloudConfig,
        /// Settings of the detector `gcp`.
        pub(super) gcp: CloudConfig,
        /// Settings of the detector `heroku`.
        pub(super) heroku: CloudConfig,
        /// Settings of the detector `k8s_api`.
        pub(super) k8s_api: KubernetesConfig,
        /// Settings of the detector `k8snode`, an older name of `k8s_api`.
        pub(super) k8snode: KubernetesConfig,
        /// Settings of the detector `lambda`.
        pub(super) lambda: CloudConfig,
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
    akamai alibaba_ecs consul digitalocean eks hetzner ibmcloud_classic ibmcloud_vpc kubeadm nova openshift
    oraclecloud scaleway tencent_cvm upcloud vultr
}

impl ResourceDetectionConfig {
    /// Returns the detectors that `detectors` names, and adds the problems of their settings.
    pub(super) fn detectors(&self, problems: &mut Problems<'_>) -> Vec<Box<dyn Detector>> {
        self.docker.resource_attributes.check("docker", &super::docker::ATTRIBUTES, problems);
        self.system.check(problems);
        for (section, config) in self.kubernetes() {
            config.check(section, problems);
        }
        for (name, config) in self.platforms() {
            cloud::check(config, name, problems);
        }
        let mut detectors = Vec::with_capacity(self.detectors.len());
        for (index, name) in self.detectors.iter().enumerate() {
            match self.detector(name, problems) {
                Some(detector) => detectors.push(detector),
                None => problems.add(&format!("detectors[{index}]"), {
                    let mut known: Vec<&str> = PLATFORMS.iter().map(|platform| platform.name).collect();
                    known.extend(DETECTORS);
                    known.sort_unstable();
                    format!("invalid detector key: {name:?}: expected one of {}", known.join(", "))
                }),
            }
        }
        detectors
    }

    fn kubernetes(&self) -> [(&'static str, &KubernetesConfig); 2] {
        [("k8s_api", &self.k8s_api), ("k8snode", &self.k8snode)]
    }

    /// Returns the sections of cloud platforms by their names.
    fn platforms(&self) -> [(&'static str, &CloudConfig); 9] {
        [
            ("aks", &self.aks),
            ("azure", &self.azure.cloud),
            ("ec2", &self.ec2.cloud),
            ("ecs", &self.ecs),
            ("elastic_beanstalk", &self.elastic_beanstalk),
            ("elastic_beanstalk", &self.elasticbeanstalk),
            ("gcp", &self.gcp),
            ("heroku", &self.heroku),
            ("lambda", &self.lambda),
        ]
    }

    fn detector(&self, name: &str, problems: &mut Problems<'_>) -> Option<Box<dyn Detector>> {
        let strict = self.fail_on_missing_metadata;
        let kubernetes = self.kubernetes().into_iter().find(|(section, _)| *section == name);
        Some(match (name, kubernetes) {
            ("docker", _) => Box::new(Docker::new(&self.docker, strict)),
            ("env", _) => Box::new(Env),
            ("system", _) => Box::new(System::new(&self.system)),
            (_, Some((_, config))) => Box::new(Kubernetes::new(config, strict)),
            _ => Box::new(self.cloud(cloud::platform(name)?, problems)),
        })
    }

    fn cloud(&self, platform: &'static Platform, problems: &mut Problems<'_>) -> Cloud {
        let name = platform.name;
        // The Collector has the section under another key than the detector.
        let configured = self.platforms().into_iter().filter(|(of, _)| *of == name).map(|(_, config)| config);
        let switches = configured.map(|config| config.resource_attributes.clone()).reduce(Switches::or);
        let is_strict = self.fail_on_missing_metadata;
        let mut settings =
            Settings { switches: switches.unwrap_or_default(), is_strict, ..Settings::default() };
        if name == "ec2" {
            settings.is_strict |= self.ec2.fail_on_missing_metadata;
            let is_answered = self.ec2.tags.is_empty() || self.ec2.tags_from_imds;
            problems.require(
                is_answered,
                "ec2::tags",
                "tags are read from the metadata server only: expected tags_from_imds: true",
            );
            settings = settings.with_tags("ec2::tags", &self.ec2.tags, problems);
        }
        if name == "azure" {
            settings = settings.with_tags("azure::tags", &self.azure.tags, problems);
        }
        Cloud { platform, settings, world: World::default() }
    }
}
