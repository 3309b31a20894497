//! Monitoring: counters, gauges and samplers of the process.
//!
//! A metric has a cell for each combination of labels. Cells live as long as their metric, and are changed by any number of threads.

use std::collections::BTreeMap;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use parking_lot::Mutex;
use tfcore_base::Result;

use crate::capi::handle::{Boxed, CStrIn, Mut, Owned, Ref, Status, guard, quiet};
use crate::capi::tf_buffer::{TF_Buffer, fill_with};

/// The cells of a metric by their labels. A cell is never moved.
struct Metric<C>(Mutex<BTreeMap<Vec<String>, Box<C>>>);

impl<C> Metric<C> {
    fn new() -> Metric<C> {
        Metric(Mutex::default())
    }

    /// The cell of these labels, made by `make` if there is none.
    fn cell(&self, labels: &[CStrIn], make: impl FnOnce() -> C) -> Result<*mut C> {
        let labels = labels.iter().map(|label| Ok(label.get("label")?.into_owned()));
        let labels = labels.collect::<Result<Vec<_>>>()?;
        let mut cells = self.0.lock();
        let cell = cells.entry(labels).or_insert_with(|| Box::new(make()));
        Ok(ptr::from_mut(&mut **cell))
    }
}

/// A number that grows.
#[derive(Default)]
pub struct TFE_MonitoringCounterCell(AtomicI64);

/// A number.
#[derive(Default)]
pub struct TFE_MonitoringIntGaugeCell(AtomicI64);

/// A text.
#[derive(Default)]
pub struct TFE_MonitoringStringGaugeCell(Mutex<String>);

/// A truth value.
#[derive(Default)]
pub struct TFE_MonitoringBoolGaugeCell(AtomicBool);

/// Adds to a counter.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringCounterCellIncrementBy(
    cell: Ref<TFE_MonitoringCounterCell>,
    value: i64,
) {
    quiet((), || {
        cell.get("cell")?.0.fetch_add(value, Ordering::Relaxed);
        Ok(())
    });
}

/// Returns the number of a counter.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringCounterCellValue(cell: Ref<TFE_MonitoringCounterCell>) -> i64 {
    quiet(0, || Ok(cell.get("cell")?.0.load(Ordering::Relaxed)))
}

/// Sets a gauge.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringIntGaugeCellSet(cell: Ref<TFE_MonitoringIntGaugeCell>, value: i64) {
    quiet((), || {
        cell.get("cell")?.0.store(value, Ordering::Relaxed);
        Ok(())
    });
}

/// Returns the number of a gauge.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringIntGaugeCellValue(cell: Ref<TFE_MonitoringIntGaugeCell>) -> i64 {
    quiet(0, || Ok(cell.get("cell")?.0.load(Ordering::Relaxed)))
}

/// Sets a gauge to a copy of a text.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringStringGaugeCellSet(
    cell: Ref<TFE_MonitoringStringGaugeCell>,
    value: CStrIn,
) {
    quiet((), || {
        *cell.get("cell")?.0.lock() = value.get("value")?.into_owned();
        Ok(())
    });
}

/// Stores the text of a gauge.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringStringGaugeCellValue(
    cell: Ref<TFE_MonitoringStringGaugeCell>,
    buf: Mut<TF_Buffer>,
) {
    quiet((), || fill_with(buf, cell.get("cell")?.0.lock().as_bytes()));
}

/// Sets a gauge.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringBoolGaugeCellSet(
    cell: Ref<TFE_MonitoringBoolGaugeCell>,
    value: bool,
) {
    quiet((), || {
        cell.get("cell")?.0.store(value, Ordering::Relaxed);
        Ok(())
    });
}

/// Returns the truth value of a gauge.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringBoolGaugeCellValue(cell: Ref<TFE_MonitoringBoolGaugeCell>) -> bool {
    quiet(false, || Ok(cell.get("cell")?.0.load(Ordering::Relaxed)))
}

/// A counter with no label.
pub struct TFE_MonitoringCounter0(Metric<TFE_MonitoringCounterCell>);

impl Boxed for TFE_MonitoringCounter0 {}

/// Returns a counter, for the caller to delete. Names need not be unique.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringNewCounter0(
    _name: CStrIn,
    status: Status,
    _description: CStrIn,
) -> *mut TFE_MonitoringCounter0 {
    guard(status, ptr::null_mut(), || Ok(TFE_MonitoringCounter0(Metric::new()).hand_out()))
}

/// Deletes a counter with its cells; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringDeleteCounter0(counter: Owned<TFE_MonitoringCounter0>) {
    drop(counter);
}

/// Returns the only cell, which is the counter's.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringGetCellCounter0(
    counter: Ref<TFE_MonitoringCounter0>,
) -> *mut TFE_MonitoringCounterCell {
    quiet(ptr::null_mut(), || counter.get("counter")?.0.cell(&[], Default::default))
}

/// A counter with one label.
pub struct TFE_MonitoringCounter1(Metric<TFE_MonitoringCounterCell>);

impl Boxed for TFE_MonitoringCounter1 {}

/// Returns a counter, for the caller to delete. Names need not be unique.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringNewCounter1(
    _name: CStrIn,
    status: Status,
    _description: CStrIn,
    _label1: CStrIn,
) -> *mut TFE_MonitoringCounter1 {
    guard(status, ptr::null_mut(), || Ok(TFE_MonitoringCounter1(Metric::new()).hand_out()))
}

/// Deletes a counter with its cells; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringDeleteCounter1(counter: Owned<TFE_MonitoringCounter1>) {
    drop(counter);
}

/// Returns the cell of these labels, which is the counter's.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringGetCellCounter1(
    counter: Ref<TFE_MonitoringCounter1>,
    label1: CStrIn,
) -> *mut TFE_MonitoringCounterCell {
    quiet(ptr::null_mut(), || counter.get("counter")?.0.cell(&[label1], Default::default))
}

/// A counter with two labels.
pub struct TFE_MonitoringCounter2(Metric<TFE_MonitoringCounterCell>);

impl Boxed for TFE_MonitoringCounter2 {}

/// Returns a counter, for the caller to delete. Names need not be unique.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringNewCounter2(
    _name: CStrIn,
    status: Status,
    _description: CStrIn,
    _label1: CStrIn,
    _label2: CStrIn,
) -> *mut TFE_MonitoringCounter2 {
    guard(status, ptr::null_mut(), || Ok(TFE_MonitoringCounter2(Metric::new()).hand_out()))
}

/// Deletes a counter with its cells; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringDeleteCounter2(counter: Owned<TFE_MonitoringCounter2>) {
    drop(counter);
}

/// Returns the cell of these labels, which is the counter's.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringGetCellCounter2(
    counter: Ref<TFE_MonitoringCounter2>,
    label1: CStrIn,
    label2: CStrIn,
) -> *mut TFE_MonitoringCounterCell {
    quiet(ptr::null_mut(), || counter.get("counter")?.0.cell(&[label1, label2], Default::default))
}

/// A gauge of a number with no label.
pub struct TFE_MonitoringIntGauge0(Metric<TFE_MonitoringIntGaugeCell>);

impl Boxed for TFE_MonitoringIntGauge0 {}

/// Returns a gauge of a number, for the caller to delete. Names need not be unique.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringNewIntGauge0(
    _name: CStrIn,
    status: Status,
    _description: CStrIn,
) -> *mut TFE_MonitoringIntGauge0 {
    guard(status, ptr::null_mut(), || Ok(TFE_MonitoringIntGauge0(Metric::new()).hand_out()))
}

/// Deletes a gauge of a number with its cells; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringDeleteIntGauge0(gauge: Owned<TFE_MonitoringIntGauge0>) {
    drop(gauge);
}

/// Returns the only cell, which is the gauge's.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringGetCellIntGauge0(
    gauge: Ref<TFE_MonitoringIntGauge0>,
) -> *mut TFE_MonitoringIntGaugeCell {
    quiet(ptr::null_mut(), || gauge.get("gauge")?.0.cell(&[], Default::default))
}

/// A gauge of a number with one label.
pub struct TFE_MonitoringIntGauge1(Metric<TFE_MonitoringIntGaugeCell>);

impl Boxed for TFE_MonitoringIntGauge1 {}

/// Returns a gauge of a number, for the caller to delete. Names need not be unique.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringNewIntGauge1(
    _name: CStrIn,
    status: Status,
    _description: CStrIn,
    _label1: CStrIn,
) -> *mut TFE_MonitoringIntGauge1 {
    guard(status, ptr::null_mut(), || Ok(TFE_MonitoringIntGauge1(Metric::new()).hand_out()))
}

/// Deletes a gauge of a number with its cells; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringDeleteIntGauge1(gauge: Owned<TFE_MonitoringIntGauge1>) {
    drop(gauge);
}

/// Returns the cell of these labels, which is the gauge's.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringGetCellIntGauge1(
    gauge: Ref<TFE_MonitoringIntGauge1>,
    label1: CStrIn,
) -> *mut TFE_MonitoringIntGaugeCell {
    quiet(ptr::null_mut(), || gauge.get("gauge")?.0.cell(&[label1], Default::default))
}

/// A gauge of a number with two labels.
pub struct TFE_MonitoringIntGauge2(Metric<TFE_MonitoringIntGaugeCell>);

impl Boxed for TFE_MonitoringIntGauge2 {}

/// Returns a gauge of a number, for the caller to delete. Names need not be unique.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringNewIntGauge2(
    _name: CStrIn,
    status: Status,
    _description: CStrIn,
    _label1: CStrIn,
    _label2: CStrIn,
) -> *mut TFE_MonitoringIntGauge2 {
    guard(status, ptr::null_mut(), || Ok(TFE_MonitoringIntGauge2(Metric::new()).hand_out()))
}

/// Deletes a gauge of a number with its cells; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringDeleteIntGauge2(gauge: Owned<TFE_MonitoringIntGauge2>) {
    drop(gauge);
}

/// Returns the cell of these labels, which is the gauge's.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringGetCellIntGauge2(
    gauge: Ref<TFE_MonitoringIntGauge2>,
    label1: CStrIn,
    label2: CStrIn,
) -> *mut TFE_MonitoringIntGaugeCell {
    quiet(ptr::null_mut(), || gauge.get("gauge")?.0.cell(&[label1, label2], Default::default))
}

/// A gauge of a text with no label.
pub struct TFE_MonitoringStringGauge0(Metric<TFE_MonitoringStringGaugeCell>);

impl Boxed for TFE_MonitoringStringGauge0 {}

/// Returns a gauge of a text, for the caller to delete. Names need not be unique.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringNewStringGauge0(
    _name: CStrIn,
    status: Status,
    _description: CStrIn,
) -> *mut TFE_MonitoringStringGauge0 {
    guard(status, ptr::null_mut(), || Ok(TFE_MonitoringStringGauge0(Metric::new()).hand_out()))
}

/// Deletes a gauge of a text with its cells; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringDeleteStringGauge0(gauge: Owned<TFE_MonitoringStringGauge0>) {
    drop(gauge);
}

/// Returns the only cell, which is the gauge's.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringGetCellStringGauge0(
    gauge: Ref<TFE_MonitoringStringGauge0>,
) -> *mut TFE_MonitoringStringGaugeCell {
    quiet(ptr::null_mut(), || gauge.get("gauge")?.0.cell(&[], Default::default))
}

/// A gauge of a text with one label.
pub struct TFE_MonitoringStringGauge1(Metric<TFE_MonitoringStringGaugeCell>);

impl Boxed for TFE_MonitoringStringGauge1 {}

/// Returns a gauge of a text, for the caller to delete. Names need not be unique.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringNewStringGauge1(
    _name: CStrIn,
    status: Status,
    _description: CStrIn,
    _label1: CStrIn,
) -> *mut TFE_MonitoringStringGauge1 {
    guard(status, ptr::null_mut(), || Ok(TFE_MonitoringStringGauge1(Metric::new()).hand_out()))
}

/// Deletes a gauge of a text with its cells; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringDeleteStringGauge1(gauge: Owned<TFE_MonitoringStringGauge1>) {
    drop(gauge);
}

/// Returns the cell of these labels, which is the gauge's.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringGetCellStringGauge1(
    gauge: Ref<TFE_MonitoringStringGauge1>,
    label1: CStrIn,
) -> *mut TFE_MonitoringStringGaugeCell {
    quiet(ptr::null_mut(), || gauge.get("gauge")?.0.cell(&[label1], Default::default))
}

/// A gauge of a text with two labels.
pub struct TFE_MonitoringStringGauge2(Metric<TFE_MonitoringStringGaugeCell>);

impl Boxed for TFE_MonitoringStringGauge2 {}

/// Returns a gauge of a text, for the caller to delete. Names need not be unique.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringNewStringGauge2(
    _name: CStrIn,
    status: Status,
    _description: CStrIn,
    _label1: CStrIn,
    _label2: CStrIn,
) -> *mut TFE_MonitoringStringGauge2 {
    guard(status, ptr::null_mut(), || Ok(TFE_MonitoringStringGauge2(Metric::new()).hand_out()))
}

/// Deletes a gauge of a text with its cells; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringDeleteStringGauge2(gauge: Owned<TFE_MonitoringStringGauge2>) {
    drop(gauge);
}

/// Returns the cell of these labels, which is the gauge's.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringGetCellStringGauge2(
    gauge: Ref<TFE_MonitoringStringGauge2>,
    label1: CStrIn,
    label2: CStrIn,
) -> *mut TFE_MonitoringStringGaugeCell {
    quiet(ptr::null_mut(), || gauge.get("gauge")?.0.cell(&[label1, label2], Default::default))
}

/// A gauge of a text with three labels.
pub struct TFE_MonitoringStringGauge3(Metric<TFE_MonitoringStringGaugeCell>);

impl Boxed for TFE_MonitoringStringGauge3 {}

/// Returns a gauge of a text, for the caller to delete. Names need not be unique.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringNewStringGauge3(
    _name: CStrIn,
    status: Status,
    _description: CStrIn,
    _label1: CStrIn,
    _label2: CStrIn,
    _label3: CStrIn,
) -> *mut TFE_MonitoringStringGauge3 {
    guard(status, ptr::null_mut(), || Ok(TFE_MonitoringStringGauge3(Metric::new()).hand_out()))
}

/// Deletes a gauge of a text with its cells; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringDeleteStringGauge3(gauge: Owned<TFE_MonitoringStringGauge3>) {
    drop(gauge);
}

/// Returns the cell of these labels, which is the gauge's.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringGetCellStringGauge3(
    gauge: Ref<TFE_MonitoringStringGauge3>,
    label1: CStrIn,
    label2: CStrIn,
    label3: CStrIn,
) -> *mut TFE_MonitoringStringGaugeCell {
    quiet(ptr::null_mut(), || {
        gauge.get("gauge")?.0.cell(&[label1, label2, label3], Default::default)
    })
}

/// A gauge of a text with four labels.
pub struct TFE_MonitoringStringGauge4(Metric<TFE_MonitoringStringGaugeCell>);

impl Boxed for TFE_MonitoringStringGauge4 {}

/// Returns a gauge of a text, for the caller to delete. Names need not be unique.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringNewStringGauge4(
    _name: CStrIn,
    status: Status,
    _description: CStrIn,
    _label1: CStrIn,
    _label2: CStrIn,
    _label3: CStrIn,
    _label4: CStrIn,
) -> *mut TFE_MonitoringStringGauge4 {
    guard(status, ptr::null_mut(), || Ok(TFE_MonitoringStringGauge4(Metric::new()).hand_out()))
}

/// Deletes a gauge of a text with its cells; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringDeleteStringGauge4(gauge: Owned<TFE_MonitoringStringGauge4>) {
    drop(gauge);
}

/// Returns the cell of these labels, which is the gauge's.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringGetCellStringGauge4(
    gauge: Ref<TFE_MonitoringStringGauge4>,
    label1: CStrIn,
    label2: CStrIn,
    label3: CStrIn,
    label4: CStrIn,
) -> *mut TFE_MonitoringStringGaugeCell {
    quiet(ptr::null_mut(), || {
        gauge.get("gauge")?.0.cell(&[label1, label2, label3, label4], Default::default)
    })
}

/// A gauge of a truth value with no label.
pub struct TFE_MonitoringBoolGauge0(Metric<TFE_MonitoringBoolGaugeCell>);

impl Boxed for TFE_MonitoringBoolGauge0 {}

/// Returns a gauge of a truth value, for the caller to delete. Names need not be unique.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringNewBoolGauge0(
    _name: CStrIn,
    status: Status,
    _description: CStrIn,
) -> *mut TFE_MonitoringBoolGauge0 {
    guard(status, ptr::null_mut(), || Ok(TFE_MonitoringBoolGauge0(Metric::new()).hand_out()))
}

/// Deletes a gauge of a truth value with its cells; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringDeleteBoolGauge0(gauge: Owned<TFE_MonitoringBoolGauge0>) {
    drop(gauge);
}

/// Returns the only cell, which is the gauge's.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringGetCellBoolGauge0(
    gauge: Ref<TFE_MonitoringBoolGauge0>,
) -> *mut TFE_MonitoringBoolGaugeCell {
    quiet(ptr::null_mut(), || gauge.get("gauge")?.0.cell(&[], Default::default))
}

/// A gauge of a truth value with one label.
pub struct TFE_MonitoringBoolGauge1(Metric<TFE_MonitoringBoolGaugeCell>);

impl Boxed for TFE_MonitoringBoolGauge1 {}

/// Returns a gauge of a truth value, for the caller to delete. Names need not be unique.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringNewBoolGauge1(
    _name: CStrIn,
    status: Status,
    _description: CStrIn,
    _label1: CStrIn,
) -> *mut TFE_MonitoringBoolGauge1 {
    guard(status, ptr::null_mut(), || Ok(TFE_MonitoringBoolGauge1(Metric::new()).hand_out()))
}

/// Deletes a gauge of a truth value with its cells; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringDeleteBoolGauge1(gauge: Owned<TFE_MonitoringBoolGauge1>) {
    drop(gauge);
}

/// Returns the cell of these labels, which is the gauge's.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringGetCellBoolGauge1(
    gauge: Ref<TFE_MonitoringBoolGauge1>,
    label1: CStrIn,
) -> *mut TFE_MonitoringBoolGaugeCell {
    quiet(ptr::null_mut(), || gauge.get("gauge")?.0.cell(&[label1], Default::default))
}

/// A gauge of a truth value with two labels.
pub struct TFE_MonitoringBoolGauge2(Metric<TFE_MonitoringBoolGaugeCell>);

impl Boxed for TFE_MonitoringBoolGauge2 {}

/// Returns a gauge of a truth value, for the caller to delete. Names need not be unique.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringNewBoolGauge2(
    _name: CStrIn,
    status: Status,
    _description: CStrIn,
    _label1: CStrIn,
    _label2: CStrIn,
) -> *mut TFE_MonitoringBoolGauge2 {
    guard(status, ptr::null_mut(), || Ok(TFE_MonitoringBoolGauge2(Metric::new()).hand_out()))
}

/// Deletes a gauge of a truth value with its cells; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringDeleteBoolGauge2(gauge: Owned<TFE_MonitoringBoolGauge2>) {
    drop(gauge);
}

/// Returns the cell of these labels, which is the gauge's.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_MonitoringGetCellBoolGauge2(
    gauge: Ref<TFE_MonitoringBoolGauge2>,
    label1: CStrIn,
    label2: CStrIn,
) -> *mut TFE_MonitoringBoolGaugeCell {
    quiet(ptr::null_mut(), || gauge.get("gauge")?.0.cell(&[label1, label2], Default::default))
}
