//! Registers: the only file that depends on the architecture.

use core::mem::MaybeUninit;

use aya_ebpf::helpers::bpf_probe_read_user;
use aya_ebpf::helpers::generated::bpf_probe_read_user as bpf_probe_read_user_raw;
use probe_abi::record::ARGUMENTS;
use probe_abi::{ArgPos, Cookie};

/// Number of arguments in registers.
#[cfg(bpf_target_arch = "x86_64")]
const IN_REGISTERS: usize = 6;
#[cfg(bpf_target_arch = "aarch64")]
const IN_REGISTERS: usize = 8;

/// Capacity for the positions 1 to 9; a power of two, to mask an index.
const POSITIONS: usize = 16;

/// Arguments of one call, by position; 0 at position 0.
pub struct Args([u64; POSITIONS]);

impl Args {
    /// Reads the registers and, with `with_stack`, the first arguments on the stack.
    #[inline(always)]
    pub fn read<'a>(into: &'a mut MaybeUninit<Args>, regs: &Regs, with_stack: bool) -> &'a Args {
        let first = into.as_mut_ptr().cast::<u64>();
        for at in 0..POSITIONS {
            // SAFETY: within the array. Volatile: else the stores become a call of memset, which writes single bytes.
            unsafe { first.add(at).write_volatile(0) };
        }
        // SAFETY: every word was written.
        let args = unsafe { into.assume_init_mut() };
        regs.fill(&mut args.0);
        if with_stack && let Ok(words) = read_user::<[u64; 3]>(regs.first_stack_argument()) {
            args.0[IN_REGISTERS + 1] = words[0];
            args.0[IN_REGISTERS + 2] = words[1];
            args.0[IN_REGISTERS + 3] = words[2];
        }
        args
    }

    /// Returns the argument at `position`; 0 for none.
    #[inline(always)]
    pub fn at(&self, position: ArgPos) -> u64 {
        self.0[position.0 as usize & (POSITIONS - 1)]
    }

    /// Returns true if the argument at `position` is on the stack.
    #[inline(always)]
    pub fn is_on_stack(position: ArgPos) -> bool {
        position.0 as usize > IN_REGISTERS && position != ArgPos::IN_CONFIG
    }
}

/// Reads a value from the memory of the traced process. Fails if the address is not mapped.
#[inline(always)]
pub fn read_user<T>(address: u64) -> Result<T, i32> {
    // SAFETY: the helper checks the address itself and fails where it cannot be read.
    unsafe { bpf_probe_read_user(address as *const T) }
}

/// Reads a word from the memory of the traced process into `into`; 0 if the address is not mapped.
#[inline(always)]
pub fn read_user_into(address: u64, into: &mut u64) {
    // SAFETY: `into` is eight writable bytes; the helper checks the address itself, and zeroes them where it fails.
    unsafe { bpf_probe_read_user_raw(core::ptr::from_mut(into).cast(), 8, address as *const _) };
}

/// Zeroes what was read from registers that have no argument.
#[inline(always)]
fn clear_missing(cookie: Cookie, arguments: &mut [u64; ARGUMENTS]) {
    let count = cookie.arguments();
    for (at, argument) in arguments.iter_mut().enumerate() {
        if at as u64 >= count {
            // SAFETY: a reference. Volatile: else it becomes a call of memset.
            unsafe { core::ptr::from_mut(argument).write_volatile(0) };
        }
    }
}

#[cfg(bpf_target_arch = "x86_64")]
mod arch {
    use aya_ebpf::bindings::pt_regs;
    use probe_abi::Cookie;
    use probe_abi::record::ARGUMENTS;

    /// Registers of the traced thread.
    pub struct Regs(*mut pt_regs);

    impl Regs {
        #[inline(always)]
        pub fn new(regs: *mut pt_regs) -> Regs {
            Regs(regs)
        }

        #[inline(always)]
        fn get(&self) -> &pt_regs {
            // SAFETY: the kernel hands every uprobe program a valid pt_regs for the length of its run.
            unsafe { &*self.0 }
        }

        #[inline(always)]
        pub fn fill(&self, args: &mut [u64; super::POSITIONS]) {
            let r = self.get();
            args[1] = r.rdi;
            args[2] = r.rsi;
            args[3] = r.rdx;
            args[4] = r.rcx;
            args[5] = r.r8;
            args[6] = r.r9;
        }

        /// Reads the C arguments of a call. A struct by value takes no register and is first on the stack.
        #[inline(always)]
        pub fn read_args(&self, cookie: Cookie, into: &mut [u64; ARGUMENTS]) {
            let r = self.get();
            (into[0], into[1]) = (r.rdi, r.rsi);
            if cookie.has_struct_by_value() {
                into[2] = self.first_stack_argument();
                (into[3], into[4], into[5]) = (r.rdx, r.rcx, r.r8);
            } else {
                (into[2], into[3], into[4], into[5]) = (r.rdx, r.rcx, r.r8, r.r9);
                let on_stack = self.first_stack_argument();
                match cookie.arguments() {
                    0..=6 => {}
                    7 => into[6] = super::read_user(on_stack).unwrap_or(0),
                    _ => [into[6], into[7]] = super::read_user(on_stack).unwrap_or([0; 2]),
                }
            }
            super::clear_missing(cookie, into);
        }

        /// Returns the argument at position `N`, from its register or from the stack.
        #[inline(always)]
        pub fn argument<const N: u64>(&self) -> u64 {
            let r = self.get();
            // Volatile: two loads would be merged into one through a chosen pointer, which the verifier refuses.
            let read = |register: *const u64| unsafe { register.read_volatile() };
            match N {
                1 => read(&raw const r.rdi),
                2 => read(&raw const r.rsi),
                3 => read(&raw const r.rdx),
                4 => read(&raw const r.rcx),
                5 => read(&raw const r.r8),
                6 => read(&raw const r.r9),
                _ => super::read_user(self.stack_argument::<N>()).unwrap_or(0),
            }
        }

        /// Reads the argument at position `N`, often on the stack, into `into`.
        #[inline(always)]
        pub fn read_argument<const N: u64>(&self, into: &mut u64) {
            super::read_user_into(self.stack_argument::<N>(), into);
        }

        #[inline(always)]
        fn stack_argument<const N: u64>(&self) -> u64 {
            self.first_stack_argument().wrapping_add(8 * (N - 7))
        }

        /// Returns the stack pointer at the function's first instruction.
        #[inline(always)]
        pub fn entry_sp(&self) -> u64 {
            self.get().rsp
        }

        /// Returns the stack pointer at the entry of the returning function.
        #[inline(always)]
        pub fn entry_sp_of_return(&self) -> u64 {
            self.get().rsp.wrapping_sub(8)
        }

        #[inline(always)]
        pub fn first_stack_argument(&self) -> u64 {
            self.get().rsp.wrapping_add(8)
        }

        /// Returns the return address of the entered function.
        #[inline(always)]
        pub fn return_address(&self) -> u64 {
            super::read_user::<u64>(self.get().rsp).unwrap_or(0)
        }

        /// Returns the address to which the function returns.
        #[inline(always)]
        pub fn returned_to(&self) -> u64 {
            self.get().rip
        }

        #[inline(always)]
        pub fn return_value(&self) -> u64 {
            self.get().rax
        }
    }
}

#[cfg(bpf_target_arch = "aarch64")]
mod arch {
    use aya_ebpf::bindings::{pt_regs, user_pt_regs};
    use probe_abi::Cookie;
    use probe_abi::record::ARGUMENTS;

    /// Registers of the traced thread.
    pub struct Regs(*mut user_pt_regs);

    impl Regs {
        #[inline(always)]
        pub fn new(regs: *mut pt_regs) -> Regs {
            Regs(regs.cast())
        }

        #[inline(always)]
        fn get(&self) -> &user_pt_regs {
            // SAFETY: the kernel hands every uprobe program valid user_pt_regs for the length of its run.
            unsafe { &*self.0 }
        }

        #[inline(always)]
        pub fn fill(&self, args: &mut [u64; super::POSITIONS]) {
            let r = self.get();
            args[1] = r.regs[0];
            args[2] = r.regs[1];
            args[3] = r.regs[2];
            args[4] = r.regs[3];
            args[5] = r.regs[4];
            args[6] = r.regs[5];
            args[7] = r.regs[6];
            args[8] = r.regs[7];
        }

        /// Reads the C arguments of a call. A struct by value is passed by pointer.
        #[inline(always)]
        pub fn read_args(&self, cookie: Cookie, into: &mut [u64; ARGUMENTS]) {
            let r = &self.get().regs;
            *into = [r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7]];
            super::clear_missing(cookie, into);
        }

        /// Returns the argument at position `N`, from its register or from the stack.
        #[inline(always)]
        pub fn argument<const N: u64>(&self) -> u64 {
            match N {
                // Volatile: see above. SAFETY: as in `get`.
                1..=8 => unsafe { (&raw const self.get().regs[N as usize - 1]).read_volatile() },
                _ => super::read_user(self.get().sp.wrapping_add(8 * (N - 9))).unwrap_or(0),
            }
        }

        /// Reads the argument at position `N`, often on the stack, into `into`.
        #[inline(always)]
        pub fn read_argument<const N: u64>(&self, into: &mut u64) {
            *into = self.argument::<N>();
        }

        /// Returns the stack pointer at the function's first instruction.
        #[inline(always)]
        pub fn entry_sp(&self) -> u64 {
            self.get().sp
        }

        /// Returns the stack pointer at the entry of the returning function.
        #[inline(always)]
        pub fn entry_sp_of_return(&self) -> u64 {
            self.get().sp
        }

        #[inline(always)]
        pub fn first_stack_argument(&self) -> u64 {
            self.get().sp
        }

        /// Returns the return address of the entered function.
        #[inline(always)]
        pub fn return_address(&self) -> u64 {
            self.get().regs[30]
        }

        /// Returns the address to which the function returns.
        #[inline(always)]
        pub fn returned_to(&self) -> u64 {
            self.get().pc
        }

        #[inline(always)]
        pub fn return_value(&self) -> u64 {
            self.get().regs[0]
        }
    }
}

pub use arch::Regs;
