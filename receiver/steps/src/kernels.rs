//! What the kernels of a step are: the functions of a process, their families, and the families of a step's signature.
//!
//! A lane of a signature counts the launches of one function, or, in processes of more functions than lanes, of several.
//! Families of a lane whose functions are all of one family are certain; otherwise each is possible.
//!
//! Bounded: a byte for each function of a process ([`FUNCTIONS_MAX`]).

use event::GpuFunction;
use functions::family::{FAMILIES, Family};
use probe_abi::function::{FUNCTIONS_MAX, LANES, OVERFLOW_LANE, Signature, lane};

/// Entries by which the list of functions grows.
const MORE: usize = 64;
/// What a family says that is only launched to generate tokens, in tenths.
const GENERATES: i8 = 25;

/// The families of a process's functions by ordinal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Functions {
    families: Vec<Family>,
    /// A bit for each family of which the process launched a function.
    launched: u64,
}

impl Functions {
    /// Adds a function, or its name.
    pub(crate) fn observe(&mut self, function: &GpuFunction) {
        let at = function.ordinal as usize;
        if at as u64 >= FUNCTIONS_MAX {
            return;
        }
        if at >= self.families.len() {
            self.families.reserve_exact((at + 1).next_multiple_of(MORE) - self.families.len());
            self.families.resize(at + 1, Family::Unnamed);
        }
        let family = Family::of(&function.symbol);
        if family != Family::Unnamed {
            self.families[at] = family;
            self.launched |= 1 << family as u32;
        }
    }

    /// Returns true if the process ever launched a function of this family.
    pub(crate) fn has(&self, family: Family) -> bool {
        self.launched & 1 << family as u32 != 0
    }

    /// Returns false if the process launched no kernel that generates tokens, or cannot have.
    pub(crate) fn may_generate(&self) -> bool {
        let generates = |family: &Family| self.has(*family) && family.says().generates >= GENERATES;
        let unnamed = self.families.iter().filter(|family| **family == Family::Unnamed).count();
        unnamed * 10 > self.families.len() || Family::ALL.iter().any(generates)
    }

    /// Returns the families of a step.
    pub(crate) fn kernels(&self, signature: &Signature) -> Kernels {
        let mut kernels = Kernels::default();
        for at in 0..LANES {
            let launches = signature.launches(at) as f32;
            if launches > 0.0 {
                self.add_lane(at, launches, &mut kernels);
            }
        }
        kernels
    }

    fn add_lane(&self, at: u32, launches: f32, kernels: &mut Kernels) {
        kernels.launches += launches;
        let first = (at as usize).min(self.families.len());
        let of_lane = || self.families[first..].iter().step_by(OVERFLOW_LANE as usize);
        let count = of_lane().count();
        if at == OVERFLOW_LANE || count == 0 {
            return kernels.add(Family::Unnamed, launches, true);
        }
        let is_certain = of_lane().all(|family| *family == self.families[first]);
        debug_assert_eq!(lane(first as u32), at);
        of_lane().for_each(|family| kernels.add(*family, launches / count as f32, is_certain));
    }
}

/// Launches of a step by family.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernels {
    pub(crate) launches: f32,
    certain: [f32; FAMILIES],
    possible: [f32; FAMILIES],
}

impl Default for Kernels {
    fn default() -> Kernels {
        Kernels { launches: 0.0, certain: [0.0; FAMILIES], possible: [0.0; FAMILIES] }
    }
}

impl Kernels {
    fn add(&mut self, family: Family, launches: f32, is_certain: bool) {
        let into = if is_certain { &mut self.certain } else { &mut self.possible };
        into[family as usize] += launches;
    }

    /// Returns the launches of a family, those that are only possible included.
    pub(crate) fn of(&self, family: Family) -> f32 {
        self.certain[family as usize] + self.possible[family as usize]
    }

    /// Returns true if the step launched the family for certain.
    pub(crate) fn has(&self, family: Family) -> bool {
        self.certain[family as usize] > 0.0
    }

    /// Returns how certain the presence of the family is, 0 to 1.
    pub(crate) fn presence(&self, family: usize) -> f64 {
        /// The certainty of a family of a shared lane.
        const POSSIBLE: f64 = 0.3;
        match (self.certain[family] > 0.0, self.possible[family] >= 1.0) {
            (true, _) => 1.0,
            (false, true) => POSSIBLE,
            (false, false) => 0.0,
        }
    }

    /// Returns the share of launches with a name.
    pub(crate) fn named_share(&self) -> f32 {
        1.0 - self.of(Family::Unnamed) / self.launches.max(1.0)
    }

    /// Returns the launches that do most of the work of a pass.
    pub(crate) fn of_pass(&self) -> f32 {
        Family::ALL.into_iter().filter(|family| family.is_of_pass()).map(|family| self.of(family)).sum()
    }
}

#[cfg(test)]
mod tests;
