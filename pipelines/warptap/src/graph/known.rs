//! The component types of the OpenTelemetry Collector's distributions, so that a type that exists elsewhere is not
//! reported as a slip of the pen.

use crate::config::Kind;

/// A distribution and the types of one kind that it adds to those of the rows before.
type Row = (Kind, &'static str, &'static [&'static str]);

const OTELCOL: &str = "otelcol";
const K8S: &str = "otelcol-k8s";
const CONTRIB: &str = "otelcol-contrib";

/// From the manifests of opentelemetry-collector-releases, release 0.15x.
const KNOWN: &[Row] = &[
    (Kind::Connector, OTELCOL, &["forward"]),
    (Kind::Connector, K8S, &["count", "exceptions", "failover", "roundrobin", "routing", "servicegraph", "spanmetrics"]),
    (
        Kind::Connector,
        CONTRIB,
        &["datadog", "grafanacloud", "otlp_json", "otlpjson", "signaltometrics", "slowsql", "sum"],
    ),
    (
        Kind::Exporter,
        OTELCOL,
        &[
            "debug", "file", "kafka", "nop", "opencensus", "otlp", "otlp_grpc", "otlp_http", "otlphttp", "prometheus",
            "prometheusremotewrite", "zipkin",
        ],
    ),
    (Kind::Exporter, K8S, &["loadbalancing"]),
    (
        Kind::Exporter,
        CONTRIB,
        &[
            "alertmanager", "alibabacloud_logservice", "awscloudwatchlogs", "awsemf", "awskinesis", "awss3", "awsxray",
            "azureblob", "azuredataexplorer", "azuremonitor", "bmchelix", "cassandra", "clickhouse", "coralogix",
            "datadog", "dataset", "doris", "elasticsearch", "faro", "googlecloud", "googlecloudpubsub",
            "googlecloudstorage", "googlemanagedprometheus", "honeycombmarker", "influxdb", "logicmonitor", "logzio",
            "mezmo", "opensearch", "otelarrow", "pulsar", "rabbitmq", "sapm", "sematext", "sentry", "signalfx",
            "splunk_hec", "stef", "sumologic", "syslog", "tencentcloud_logservice", "tinybird",
        ],
    ),
    (Kind::Extension, OTELCOL, &["health_check", "memory_limiter", "pprof", "zpages"]),
    (
        Kind::Extension,
        K8S,
        &[
            "basicauth", "bearertokenauth", "file_storage", "headers_setter", "k8s_leader_elector", "k8s_observer",
            "oauth2client", "oidc", "opamp",
        ],
    ),
    (
        Kind::Extension,
        CONTRIB,
        &[
            "ack", "asapclient", "avro_log_encoding", "awsproxy", "azure_auth", "azure_encoding", "basic_auth",
            "bearer_token_auth", "cfgarden_observer", "cgroupruntime", "datadog", "db_storage", "docker_observer",
            "ecs_observer", "ecs_task_observer", "googleclientauth", "host_observer", "http_forwarder",
            "jaeger_encoding", "jaegerremotesampling", "json_log_encoding", "kafkatopics_observer", "otlp_encoding",
            "redis_storage", "sigv4auth", "skywalking_encoding", "solarwindsapmsettings", "sumologic",
            "text_encoding", "zipkin_encoding",
        ],
    ),
    (
        Kind::Processor,
        OTELCOL,
        &[
            "attributes", "batch", "filter", "memory_limiter", "probabilistic_sampler", "resource", "span",
        ],
    ),
    (
        Kind::Processor,
        K8S,
        &[
            "cumulativetodelta", "deltatorate", "groupbyattrs", "groupbytrace", "interval", "k8sattributes",
            "k8s_attributes", "metricsgeneration", "metricstransform", "redaction", "remotetap", "resourcedetection",
            "tail_sampling", "transform",
        ],
    ),
    (
        Kind::Processor,
        CONTRIB,
        &[
            "coralogix", "cumulative_to_delta", "datadog", "datadogsemantics", "deltatocumulative", "dns_lookup",
            "geoip", "group_by_attrs", "isolationforest", "logdedup", "lookup", "metricstarttime", "resource_detection",
            "schema", "sumologic", "unroll",
        ],
    ),
    (
        Kind::Receiver,
        OTELCOL,
        &["hostmetrics", "jaeger", "kafka", "nop", "opencensus", "otlp", "prometheus", "zipkin"],
    ),
    (
        Kind::Receiver,
        K8S,
        &[
            "fluentforward", "httpcheck", "journald", "k8s_cluster", "k8s_events", "k8sobjects", "kubeletstats",
            "prometheus_simple", "receiver_creator", "filelog", "file_log",
        ],
    ),
    (
        Kind::Receiver,
        CONTRIB,
        &[
            "activedirectoryds", "aerospike", "apache", "apachespark", "awscloudwatch", "awscontainerinsightreceiver",
            "awsecscontainermetrics", "awsfirehose", "awslambda", "awss3", "awsxray", "azureblob", "azureeventhub",
            "azuremonitor", "bigip", "carbon", "chrony", "ciscoos", "cloudflare", "cloudfoundry", "collectd", "couchdb",
            "datadog", "docker_stats", "elasticsearch", "envoyals", "expvar", "faro", "filestats", "flinkmetrics",
            "github", "gitlab", "googlecloudmonitoring", "googlecloudpubsub", "googlecloudspanner", "haproxy", "icmpcheck",
            "iis", "influxdb", "jmx", "kafkametrics", "k8slog", "libhoney", "loki", "memcached", "mongodb",
            "mongodbatlas", "mysql", "namedpipe", "netflow", "nginx", "nsxt", "ntp", "nvidiagpu", "oracledb", "osquery",
            "otelarrow", "otlpjsonfile", "podman_stats", "postgresql", "pprof", "prometheusremotewrite", "pulsar",
            "purefa", "purefb", "rabbitmq", "redfish", "redis", "riak", "saphana", "signalfx", "simpleprometheus",
            "skywalking", "snmp", "snowflake", "solace", "splunkenterprise", "splunk_hec", "sqlquery", "sqlserver",
            "sshcheck", "statsd", "stef", "syslog", "systemd", "tcpcheck", "tcplog", "tlscheck", "udplog", "vcenter",
            "vcr", "wavefront", "webhookevent", "windowseventlog", "windowsperfcounters", "windowsservice",
            "yanggrpc", "zookeeper",
        ],
    ),
];

/// All types of a kind.
pub(super) fn types(kind: Kind) -> impl Iterator<Item = &'static str> {
    KNOWN.iter().filter(move |row| row.0 == kind).flat_map(|row| row.2.iter().copied())
}

/// The smallest distribution with a component of that kind and type.
pub(super) fn distribution(kind: Kind, name: &str) -> Option<&'static str> {
    KNOWN.iter().find(|row| row.0 == kind && row.2.contains(&name)).map(|row| row.1)
}
