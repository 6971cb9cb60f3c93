//! How each question is put to a device: a row each, most of them fields of one call's answer.

use hardware::{Fault, Identity, Process, Question, Reading, counted_by};

use crate::layout::{
    ACTIVITY, BDF, Buffer, CLOCK_GRAPHICS, CLOCK_MEMORY, CLOCK_SOC, CLOCK_VIDEO, CLOCKS_GRAPHICS, CLOCKS_SOC,
    CLOCKS_VIDEO, CORRECTABLE, DEFERRED, DRIVER_VERSION, Field, MARKET_NAME, PCIE_NAK_RECEIVED,
    PCIE_NAK_SENT, PCIE_RECOVERY, PCIE_REPLAY, POWER, POWER_AVERAGE, PRODUCT_SERIAL, TEMPERATURE_EDGE,
    TEMPERATURE_HOTSPOT, TEMPERATURE_MEMORY, UNCORRECTABLE, VBIOS_VERSION, XGMI_READ, XGMI_WRITTEN,
};
use crate::library::{Handle, Smi};
use crate::throttle::{Residency, bits};

/// The largest speed of a fan, `AMDSMI_MAX_FAN_SPEED`.
const FAN_SPEED_MAX: u64 = 255;
/// The unit of the links' counts: kilobytes, as the kernel counts them.
const KILOBYTE: u64 = 1024;
/// `AMDSMI_MEM_TYPE_VRAM`.
const VRAM: u32 = 0;

/// How a question is answered by the metrics.
enum Ask {
    /// By this one, or by the first that there is in a list of 16 bits each.
    Clock(Field, Field),
    /// By the first of these that there is, times so many.
    First(&'static [Field], u64),
    /// By the sum of what there is of numbers of 64 bits, times so many.
    Sum(Field, u64),
}

/// How each question is answered by the metrics. Newer chips have a clock of each of their parts, of which the first is
/// told, and their power now; older ones have one clock, and an average.
const METRICS: [(Question, Ask); 15] = {
    use Ask::{Clock, First, Sum};
    use Question::*;
    [
        (ClockGraphics, Clock(CLOCK_GRAPHICS, CLOCKS_GRAPHICS)),
        (ClockMemory, First(&[CLOCK_MEMORY], 1)),
        (ClockSoc, Clock(CLOCK_SOC, CLOCKS_SOC)),
        (ClockVideo, Clock(CLOCK_VIDEO, CLOCKS_VIDEO)),
        (PcieNakReceived, First(&[PCIE_NAK_RECEIVED], 1)),
        (PcieNakSent, First(&[PCIE_NAK_SENT], 1)),
        (PcieRecovery, First(&[PCIE_RECOVERY], 1)),
        (PcieReplay, First(&[PCIE_REPLAY], 1)),
        (Power, First(&[POWER, POWER_AVERAGE], 1000)),
        (TemperatureEdge, First(&[TEMPERATURE_EDGE], 1)),
        (TemperatureHotspot, First(&[TEMPERATURE_HOTSPOT], 1)),
        (TemperatureMemory, First(&[TEMPERATURE_MEMORY], 1)),
        (Utilization, First(&[ACTIVITY], 1)),
        (XgmiReceived, Sum(XGMI_READ, KILOBYTE)),
        (XgmiTransmitted, Sum(XGMI_WRITTEN, KILOBYTE)),
    ]
};

/// What a device says that it is.
pub(crate) fn identity(smi: &Smi, device: Handle) -> Identity {
    Identity {
        model: text(smi, b"amdsmi_get_gpu_asic_info\0", device, MARKET_NAME),
        serial: text(smi, b"amdsmi_get_gpu_board_info\0", device, PRODUCT_SERIAL),
        firmware: text(smi, b"amdsmi_get_gpu_vbios_info\0", device, VBIOS_VERSION),
        driver: text(smi, b"amdsmi_get_gpu_driver_info\0", device, DRIVER_VERSION),
        pci: pci(smi, device),
        ..Identity::default()
    }
}

fn text(smi: &Smi, function: &'static [u8], device: Handle, field: Field) -> String {
    let mut buffer = smi.buffer();
    match smi.fill(function, device, &mut buffer) {
        Ok(()) => buffer.text(field),
        Err(_) => String::new(),
    }
}

/// Where a device stands on the PCI bus, as the kernel writes it.
pub(crate) fn pci(smi: &Smi, device: Handle) -> String {
    let mut buffer = smi.buffer();
    let bdf = smi.fill(b"amdsmi_get_gpu_device_bdf\0", device, &mut buffer);
    let bdf = bdf.ok().and_then(|()| buffer.number(BDF));
    bdf.map_or_else(String::new, |bdf| {
        let (domain, bus, device, function) = (bdf >> 16, bdf >> 8 & 0xff, bdf >> 3 & 0x1f, bdf & 7);
        format!("{domain:04x}:{bus:02x}:{device:02x}.{function}")
    })
}

/// Puts every question.
pub(crate) fn ask(smi: &Smi, device: Handle, identity: Identity, residency: &mut Residency) -> Reading {
    let mut reading = glance(smi, device, identity, residency);
    let kinds: [(Question, &[u8]); 2] = [
        (Question::MemoryTotal, b"amdsmi_get_gpu_memory_total\0"),
        (Question::MemoryUsed, b"amdsmi_get_gpu_memory_usage\0"),
    ];
    kinds.into_iter().for_each(|(question, name)| reading.set(question, smi.number(name, device, VRAM)));
    reading.set(Question::Energy, smi.energy_uj(device).map(|uj| (uj / 1e3) as u64));
    errors(smi, device, &mut reading);
    let fan = smi.number(b"amdsmi_get_gpu_fan_speed\0", device, 0);
    reading.fans = fan.map(|speed| speed * 100 / FAN_SPEED_MAX).into_iter().collect();
    let of = |(pid, bytes)| Process { bytes: Some(bytes), ..Process::named(pid) };
    reading.processes = smi.processes(device).unwrap_or_default().into_iter().map(of).collect();
    reading
}

/// Puts the questions that the metrics answer, in one call.
pub(crate) fn glance(smi: &Smi, device: Handle, identity: Identity, residency: &mut Residency) -> Reading {
    let mut reading = Reading::blank(identity);
    let mut metrics = smi.buffer();
    let asked = smi.fill(b"amdsmi_get_gpu_metrics_info\0", device, &mut metrics);
    for (question, ask) in &METRICS {
        reading.set(*question, asked.and_then(|()| answer(&metrics, ask).ok_or(Fault::Unsupported)));
    }
    throttle(asked, &metrics, residency, &mut reading);
    reading
}

fn answer(metrics: &Buffer, ask: &Ask) -> Option<u64> {
    match ask {
        Ask::Clock(one, list) => metrics.number(*one).or_else(|| metrics.numbers(*list, 2).flatten().next()),
        Ask::First(fields, unit) => {
            let mut there = fields.iter().filter_map(|field| metrics.number(*field));
            there.next().map(|number| number * unit)
        }
        Ask::Sum(field, unit) => {
            let there = metrics.numbers(*field, 8).flatten();
            there.map(|number| number.saturating_mul(*unit)).reduce(u64::saturating_add)
        }
    }
}

/// State and times: of what counts cycles from these, of what sets bits from those, and its times are not counted.
fn throttle(asked: Result<(), Fault>, metrics: &Buffer, residency: &mut Residency, reading: &mut Reading) {
    let is_counted = asked.is_ok() && residency.take(metrics);
    let reasons = if is_counted { Some(residency.reasons()) } else { bits(metrics) };
    let reasons = asked.and_then(|()| reasons.ok_or(Fault::Unsupported));
    reading.set(Question::Throttle, reasons.map(|reasons| reasons.answer()));
    for (reason, ns) in residency.times_ns() {
        if let Some(question) = counted_by(reason) {
            let ns = if is_counted { Ok(ns) } else { Err(Fault::Unsupported) };
            reading.set(question, asked.and(ns));
        }
    }
}

fn errors(smi: &Smi, device: Handle, reading: &mut Reading) {
    let mut counts = smi.buffer();
    let asked = smi.fill(b"amdsmi_get_gpu_total_ecc_count\0", device, &mut counts);
    for (question, field) in [
        (Question::EccCorrected, CORRECTABLE),
        (Question::EccDeferred, DEFERRED),
        (Question::EccUncorrected, UNCORRECTABLE),
    ] {
        reading.set(question, asked.and_then(|()| counts.number(field).ok_or(Fault::Unsupported)));
    }
}
