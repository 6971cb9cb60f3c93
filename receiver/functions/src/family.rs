//! Families of kernels: what a kernel does, by its name.
//!
//! A row of [`ROWS`] is an identifier that is in the name of a kernel, mangled or not, and the family that it implies.
//! The first row that matches counts, so special names are above general ones. What a family says about the phase of a
//! step ([`Family::says`]) is a bounded logarithm of odds; the analysis adds the families of a step up.
//!
//! Names are facts of public sources, named in each row. A family is what engines use a kernel for, not what a label of a
//! trace says: many kernels are launched in several phases, and those say nothing.

mod rows;

pub use rows::ROWS;

/// What a kernel does.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum Family {
    /// The name is not known.
    #[default]
    Unnamed,
    /// A name that no row matches.
    Other,
    /// Attention of a sequence to itself, without a cache.
    Attention,
    /// Attention of which the name does not say whether it is over a cache.
    AnyAttention,
    /// Sum of the parts of an attention that was split along the cache, as for few tokens.
    AttentionCombine,
    /// Attention over a cache of keys and values, for prompts and answers.
    PagedAttention,
    /// Attention of prompts.
    PrefillAttention,
    /// Attention of one token for each request over a cache, or the sum of its parts.
    DecodeAttention,
    /// Writes keys and values into a cache.
    CacheWrite,
    /// Draws tokens from logits.
    Sampling,
    /// Index of the largest element: greedy sampling, or the class of a classifier, which a pass need not compute.
    ArgMax,
    /// State space models: scans of a prompt.
    Scan,
    /// State space models: the update of a state by one token.
    StateUpdate,
    /// Rotary position embedding.
    Rope,
    /// Routing of tokens to experts.
    MoeRouting,
    /// Matrix products of experts.
    MoeGemm,
    /// Layer norm, RMS norm.
    Norm,
    /// Group norm, instance norm.
    GroupNorm,
    /// Batch norm with stored statistics.
    BatchNorm,
    /// Batch norm with statistics of the batch, as in training.
    BatchStatistics,
    /// Activation function.
    Activation,
    /// Matrix product.
    Gemm,
    /// Product of a matrix and a vector.
    Gemv,
    /// Convolution.
    Convolution,
    /// Gradient of a convolution's input, which is also the forward pass of a transposed convolution.
    ConvolutionTransposed,
    /// Pooling.
    Pooling,
    /// Interpolation of images.
    Resampling,
    /// Softmax.
    Softmax,
    /// Loss.
    Loss,
    /// Dropout.
    Dropout,
    /// Backward pass.
    Backward,
    /// Update of parameters, or an operation on a list of tensors, as optimizers use it.
    Optimizer,
    /// Scaling and checking of gradients.
    GradientScaling,
    /// Collective operation.
    Collective,
    /// Look-up of embeddings, gather.
    Embedding,
    /// Copies, casts, transpositions, concatenations.
    Layout,
    /// Quantization.
    Quantization,
    /// Random numbers.
    Random,
    /// Sort, scan, selection.
    Sort,
    /// Reduction.
    Reduction,
    /// Element-wise operation.
    Elementwise,
}

/// Number of families.
pub const FAMILIES: usize = Family::ALL.len();

/// What the presence of a family in a step says, as logarithms of odds in tenths.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Says {
    /// For training, against inference.
    pub trains: i8,
    /// For a pass that generates tokens, against one that does not.
    pub generates: i8,
    /// For a decode, against a pass that reads prompts.
    pub decodes: i8,
}

/// The largest value of a member of [`Says`].
pub const SAYS_MAX: i8 = 40;

/// Identifiers in the names of kernels, and what they imply.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Identifiers that the name contains, in this order, separated by `*`. With `=` before it: the whole name.
    pub pattern: &'static str,
    /// The family.
    pub family: Family,
    /// The public source of the name.
    pub source: &'static str,
    /// Names from that source.
    pub examples: &'static [&'static str],
}

impl Row {
    /// Returns true if the row matches the name of a kernel.
    pub fn matches(&self, name: &str) -> bool {
        if let Some(whole) = self.pattern.strip_prefix('=') {
            return name == whole;
        }
        let mut rest = Some(name);
        for part in self.pattern.split('*') {
            rest = rest.and_then(|text| text.split_once(part)).map(|(_, after)| after);
        }
        rest.is_some()
    }
}

const fn says(trains: i8, generates: i8, decodes: i8) -> Says {
    Says { trains, generates, decodes }
}

impl Family {
    /// All families, in the order of their numbers.
    pub const ALL: [Family; 41] = [
        Family::Unnamed,
        Family::Other,
        Family::Attention,
        Family::AnyAttention,
        Family::AttentionCombine,
        Family::PagedAttention,
        Family::PrefillAttention,
        Family::DecodeAttention,
        Family::CacheWrite,
        Family::Sampling,
        Family::ArgMax,
        Family::Scan,
        Family::StateUpdate,
        Family::Rope,
        Family::MoeRouting,
        Family::MoeGemm,
        Family::Norm,
        Family::GroupNorm,
        Family::BatchNorm,
        Family::BatchStatistics,
        Family::Activation,
        Family::Gemm,
        Family::Gemv,
        Family::Convolution,
        Family::ConvolutionTransposed,
        Family::Pooling,
        Family::Resampling,
        Family::Softmax,
        Family::Loss,
        Family::Dropout,
        Family::Backward,
        Family::Optimizer,
        Family::GradientScaling,
        Family::Collective,
        Family::Embedding,
        Family::Layout,
        Family::Quantization,
        Family::Random,
        Family::Sort,
        Family::Reduction,
        Family::Elementwise,
    ];

    /// Returns the family of a kernel by its symbol, mangled or not.
    pub fn of(symbol: &str) -> Family {
        Family::by(ROWS.iter(), symbol)
    }

    /// Returns the family by some of the rows.
    pub fn by<'a>(mut rows: impl Iterator<Item = &'a Row>, symbol: &str) -> Family {
        match rows.find(|row| row.matches(symbol)) {
            _ if symbol.is_empty() => Family::Unnamed,
            Some(row) => row.family,
            None => Family::Other,
        }
    }

    /// Returns what the presence of the family in a step says.
    pub const fn says(self) -> Says {
        match self {
            Family::PagedAttention => says(-10, 30, 3),
            Family::PrefillAttention => says(-10, 25, -30),
            Family::DecodeAttention => says(-20, 35, 35),
            Family::AttentionCombine => says(-10, 15, 25),
            Family::CacheWrite => says(-20, 40, 0),
            Family::Sampling => says(-15, 25, 0),
            Family::ArgMax => says(0, 20, 0),
            Family::Scan => says(0, 8, -15),
            Family::StateUpdate => says(-10, 25, 30),
            Family::Rope => says(0, 5, 0),
            Family::MoeRouting | Family::MoeGemm => says(0, 4, 0),
            Family::GroupNorm => says(0, -20, 0),
            Family::BatchNorm => says(-10, -20, 0),
            Family::BatchStatistics => says(20, -20, 0),
            Family::Convolution => says(0, -12, 0),
            Family::ConvolutionTransposed => says(6, -12, 0),
            Family::Pooling => says(0, -10, 0),
            Family::Resampling => says(0, -15, 0),
            Family::Loss => says(20, -5, 0),
            Family::Dropout => says(20, 0, 0),
            Family::Backward => says(40, 0, 0),
            Family::Optimizer => says(40, 0, 0),
            Family::GradientScaling => says(40, 0, 0),
            _ => says(0, 0, 0),
        }
    }

    /// Returns true for the kernels that do most of the work of a model's pass.
    pub const fn is_of_pass(self) -> bool {
        matches!(
            self,
            Family::Attention
                | Family::AnyAttention
                | Family::PagedAttention
                | Family::PrefillAttention
                | Family::DecodeAttention
                | Family::Scan
                | Family::StateUpdate
                | Family::MoeGemm
                | Family::Gemm
                | Family::Gemv
                | Family::Convolution
                | Family::ConvolutionTransposed
                | Family::Backward
                | Family::Optimizer
        )
    }
}

#[cfg(test)]
mod tests;
