//! Environment variables of launchers: the rank of a process, the number of ranks, and an identifier of the job.
//!
//! There is a row for each launcher, and the first one with a rank is used. The variables are hints, which `nccl`
//! confirms by calls.

use event::LauncherEnv;
use nccl::observe::Environment;

use instrumentation::Hash;

/// Variables of rank and number of ranks, by launcher.
const RANKS: [(&str, &str); 4] = [
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
];
/// Variables that all processes of one job share: the id of the run, or the address of its rendezvous.
const JOB: [&str; 5] =
    ["MASTER_ADDR", "MASTER_PORT", "PMIX_NAMESPACE", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID"];

/// Returns the meaning of the variables.
pub(super) fn environment(launched: &LauncherEnv) -> Environment {
    let number = |name: &str| launched.first(&[name]).and_then(|value| value.trim().parse().ok());
    let ranks = RANKS.into_iter().find_map(|(rank, size)| Some((number(rank)?, number(size))));
    Environment {
        process: launched.process,
        rank: ranks.map(|(rank, _)| rank),
        world_size: ranks.and_then(|(_, size)| size),
        job: job(launched),
    }
}

/// Returns a hash of the variables that identify the job; 0 if there are none.
fn job(launched: &LauncherEnv) -> u64 {
    let named = JOB.into_iter().filter_map(|name| Some((name, launched.first(&[name])?)));
    let hash = named.fold(None, |hash: Option<Hash>, (name, value)| {
        let hash = hash.unwrap_or_else(|| Hash::of("job"));
        Some(hash.with(name.as_bytes()).with(value.as_bytes()))
    });
    hash.map_or(0, Hash::id64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launched(variables: &[(&str, &str)]) -> Environment {
        let variables = variables.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        environment(&LauncherEnv { variables, ..LauncherEnv::default() })
    }

    #[track_caller]
    fn check(variables: &[(&str, &str)], rank: Option<u32>, world_size: Option<u32>) {
        let ranks = launched(variables);
        assert_eq!((ranks.rank, ranks.world_size), (rank, world_size), "{variables:?}");
    }

    #[test]
    fn each_launcher_names_the_rank() {
        check(&[("RANK", "3"), ("WORLD_SIZE", "8")], Some(3), Some(8));
        check(&[("OMPI_COMM_WORLD_RANK", "2"), ("OMPI_COMM_WORLD_SIZE", "4")], Some(2), Some(4));
        check(&[("PMI_RANK", "0"), ("PMI_SIZE", "2")], Some(0), Some(2));
        check(&[("SLURM_PROCID", "1")], Some(1), None);
        // torchrun started by srun: one process per GPU, one task per node.
        check(&[("RANK", "9"), ("WORLD_SIZE", "16"), ("SLURM_PROCID", "1")], Some(9), Some(16));
    }

    #[test]
    fn a_rank_is_a_number() {
        check(&[], None, None);
        check(&[("RANK", "zero"), ("WORLD_SIZE", "2")], None, None);
        check(&[("RANK", "-1")], None, None);
        check(&[("WORLD_SIZE", "2")], None, None);
    }

    #[test]
    fn the_job_hash_is_common_to_its_processes() {
        let of = |port: &str, rank: &str| {
            launched(&[("MASTER_ADDR", "node-1"), ("MASTER_PORT", port), ("RANK", rank)]).job
        };
        assert_eq!(of("29500", "0"), of("29500", "1"));
        assert_ne!(of("29500", "0"), of("29501", "0"));
        assert_eq!(launched(&[("RANK", "0"), ("WORLD_SIZE", "2")]).job, 0);
    }
}
