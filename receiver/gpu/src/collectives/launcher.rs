//! What launchers tell a process of its job: which rank it is of how many, and which job it is.
//!
//! A row for each launcher; the first that names a rank is believed. Values come from the process's environment and
//! are at best a hint, which `nccl` takes for one.

use event::LauncherEnv;
use nccl::observe::Environment;

use instrumentation::Hash;

/// Rank and number of ranks, by the launcher that says so.
const RANKS: [(&str, &str); 4] = [
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
];
/// What all processes of one job share: the run's id, the place where they meet.
const JOB: [&str; 5] =
    ["MASTER_ADDR", "MASTER_PORT", "PMIX_NAMESPACE", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID"];

/// What the variables say.
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

/// A hash of what names the job; 0 where nothing does.
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
    fn each_launcher_says_the_rank_in_its_own_words() {
        check(&[("RANK", "3"), ("WORLD_SIZE", "8")], Some(3), Some(8));
        check(&[("OMPI_COMM_WORLD_RANK", "2"), ("OMPI_COMM_WORLD_SIZE", "4")], Some(2), Some(4));
        check(&[("PMI_RANK", "0"), ("PMI_SIZE", "2")], Some(0), Some(2));
        check(&[("SLURM_PROCID", "1")], Some(1), None);
        // torchrun inside of srun: a process a GPU, a task a node.
        check(&[("RANK", "9"), ("WORLD_SIZE", "16"), ("SLURM_PROCID", "1")], Some(9), Some(16));
    }

    #[test]
    fn what_is_no_number_is_no_rank() {
        check(&[], None, None);
        check(&[("RANK", "zero"), ("WORLD_SIZE", "2")], None, None);
        check(&[("RANK", "-1")], None, None);
        check(&[("WORLD_SIZE", "2")], None, None);
    }

    #[test]
    fn processes_of_one_job_share_its_hash_and_others_do_not() {
        let of = |port: &str, rank: &str| {
            launched(&[("MASTER_ADDR", "node-1"), ("MASTER_PORT", port), ("RANK", rank)]).job
        };
        assert_eq!(of("29500", "0"), of("29500", "1"));
        assert_ne!(of("29500", "0"), of("29501", "0"));
        assert_eq!(launched(&[("RANK", "0"), ("WORLD_SIZE", "2")]).job, 0);
    }
}
