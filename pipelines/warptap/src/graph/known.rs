//! The component types of the OpenTelemetry Collector's distributions, so that a type that exists elsewhere is not
//! reported as a misspelt one.

use crate::config::ComponentKind;

/// A distribution and the types of one kind that it adds to those of the rows before.
type Row = (ComponentKind, &'static str, &'static str);

const OTELCOL: &str = "otelcol";
const K8S: &str = "otelcol-k8s";
const CONTRIB: &str = "otelcol-contrib";

/// The types of opentelemetry-collector-contrib v0.160.0, from `reports/distributions/*.yaml` of that repository, and those
/// of opentelemetry-collector v0.139.0, from `distributions/otelcol/manifest.yaml` of opentelemetry-collector-releases.
const KNOWN: &[Row] = &[
    (ComponentKind::Connector, OTELCOL, "forward"),
    (ComponentKind::Connector, K8S, "count exceptions failover otlp_json round_robin routing service_graph"),
    (ComponentKind::Connector, CONTRIB, "datadog grafanacloud signal_to_metrics span_metrics sum"),
    (
        ComponentKind::Exporter,
        OTELCOL,
        "debug file kafka nop otlp_grpc otlp_http prometheus prometheus_remote_write zipkin",
    ),
    (ComponentKind::Exporter, K8S, "load_balancing otelarrow"),
    (
        ComponentKind::Exporter,
        CONTRIB,
        "alibabacloud_logservice awscloudwatchlogs awsemf awskinesis awss3 awsxray azure_blob azure_monitor \
         azuredataexplorer bmc_helix cassandra clickhouse coralogix datadog dataset doris elasticsearch faro \
         google_cloud_storage googlecloud googlecloudpubsub googlemanagedprometheus honeycomb_marker influxdb \
         logicmonitor logzio mezmo opensearch pulsar rabbitmq sentry signalfx splunk_hec stef sumologic \
         syslog tencentcloud_logservice tinybird",
    ),
    (ComponentKind::Extension, OTELCOL, "health_check pprof zpages"),
    (
        ComponentKind::Extension,
        K8S,
        "ack basicauth bearertokenauth file_storage headers_setter host_observer http_forwarder \
         k8s_leader_elector k8s_observer oauth2client oidc opamp",
    ),
    (
        ComponentKind::Extension,
        CONTRIB,
        "asapclient aws_iam_db_auth aws_logs_encoding awscloudwatchmetricstreams_encoding awsproxy azure_auth \
         azure_encoding cgroup_runtime datadog db_storage docker_observer ecs_observer \
         google_cloud_logentry_encoding googleclientauth jaeger_encoding jaegerremotesampling \
         json_log_encoding otlp_encoding pebble_tail_storage redis_storage sd_notify sigv4auth \
         skywalking_encoding text_encoding zipkin_encoding",
    ),
    (
        ComponentKind::Processor,
        OTELCOL,
        "attributes batch filter memory_limiter probabilistic_sampler resource span",
    ),
    (
        ComponentKind::Processor,
        K8S,
        "cumulative_to_delta delta_to_cumulative delta_to_rate drain groupbyattrs groupbytrace interval \
         k8s_attributes log_dedup metrics_transform redaction remotetap resource_detection tail_sampling \
         transform",
    ),
    (
        ComponentKind::Processor,
        CONTRIB,
        "cardinality_guardian gen_ai_normalizer geoip isolationforest metric_start_time metricsgeneration \
         schema span_pruning sumologic unroll",
    ),
    (ComponentKind::Receiver, OTELCOL, "host_metrics jaeger kafka nop otlp prometheus zipkin"),
    (
        ComponentKind::Receiver,
        K8S,
        "file_log fluent_forward http_check journald k8s_cluster k8s_events k8s_objects kubelet_stats \
         otelarrow receiver_creator",
    ),
    (
        ComponentKind::Receiver,
        CONTRIB,
        "active_directory_ds active_directory_inv aerospike apache apache_spark aws_cloudwatch aws_lambda \
         awscontainerinsightreceiver awsecscontainermetrics awsfirehose awss3 awsxray azure_blob \
         azure_event_hub azure_monitor carbon chrony cisco_os cloud_foundry cloudflare collectd couchdb \
         datadog docker_stats elasticsearch envoy_als expvar faro file_stats flink_metrics github gitlab \
         google_cloud_spanner googlecloudmonitoring googlecloudpubsub googlecloudpubsubpush haproxy iis \
         influxdb kafka_metrics libhoney loki macos_unified_logging memcached mongodb mongodb_atlas mysql \
         named_pipe netflow nginx nsxt ntp oracledb otlp_json_file podman_stats postgresql pprof \
         prometheus_remote_write prometheus_simple pulsar purefa purefb rabbitmq redis riak saphana signalfx \
         skywalking snmp snowflake solace splunk_enterprise splunk_hec sql_query sqlserver ssh_check statsd \
         stef syslog systemd tcp_check tcp_log tls_check udp_log vcenter wavefront webhook_event \
         windows_event_log windows_perf_counters windows_service yang_grpc zookeeper",
    ),
];

/// Returns all types of a kind.
pub(super) fn types(kind: ComponentKind) -> impl Iterator<Item = &'static str> {
    KNOWN.iter().filter(move |row| row.0 == kind).flat_map(|row| row.2.split_whitespace())
}

/// Returns the smallest distribution with a component of that kind and type. The deprecated name of a type is the type
/// without underscores.
pub fn distribution(kind: ComponentKind, name: &str) -> Option<&'static str> {
    let bare = |text: &str| text.replace('_', "");
    let has = |row: &&Row| row.0 == kind && row.2.split_whitespace().any(|known| bare(known) == bare(name));
    KNOWN.iter().find(has).map(|row| row.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_distribution_of_a_type_is_named() {
        for (kind, name, want) in [
            (ComponentKind::Processor, "batch", Some(OTELCOL)),
            (ComponentKind::Receiver, "hostmetrics", Some(OTELCOL)),
            (ComponentKind::Receiver, "k8s_cluster", Some(K8S)),
            (ComponentKind::Processor, "k8sattributes", Some(K8S)),
            (ComponentKind::Receiver, "mysql", Some(CONTRIB)),
            (ComponentKind::Exporter, "mysql", None),
            (ComponentKind::Receiver, "oltp", None),
        ] {
            assert_eq!(distribution(kind, name), want, "{kind:?} {name}");
        }
    }

    #[test]
    fn no_type_is_listed_twice() {
        for kind in ComponentKind::ALL {
            let all: Vec<&str> = types(kind).collect();
            let unique: std::collections::BTreeSet<&str> = all.iter().copied().collect();
            assert_eq!(all.len(), unique.len(), "{kind:?}: {all:?}");
        }
    }
}
