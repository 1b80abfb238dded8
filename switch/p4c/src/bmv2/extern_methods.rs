//! Methods of externs that TNA and PSA share.

use ebb_bmv2_json::Value as Json;

use super::backend::{Backend, hex_value};
use super::tofino::values::{concatenated, number};
use crate::ir::Expr;
use crate::source::Span;
use crate::types::Type;

impl Backend<'_> {
    /// The colour of a packet by a cell of a meter array, 0 to 2: green, yellow, red.
    pub(super) fn indexed_colour(&mut self, array: String, cell: &Expr, span: Span) -> Expr {
        let colour = self.temp(&Type::bit(8), span);
        let parameters = vec![
            Json::MeterArray(array),
            self.argument(cell),
            self.argument(&colour),
        ];
        self.emit("execute_meter", parameters, span);
        colour
    }

    /// The colour of a packet by the meter of the entry that its table hit, numbered likewise.
    pub(super) fn direct_colour(&mut self, meter: usize, span: Span) -> Expr {
        let colour = self.kept(meter, &Type::bit(8), span);
        if let Some(field) = self.field_of(&colour) {
            self.meter_result(meter, field, span);
        }
        colour
    }

    /// Sends these values to the control plane.
    pub(super) fn pack_digest(&mut self, digest: &str, data: &Expr, span: Span) {
        let id = self.digest_list(digest, data, span);
        let parameters = vec![hex_value(0, 8), hex_value(id, 32)];
        self.emit("generate_digest", parameters, span);
    }

    /// Emits the headers of a value.
    pub(super) fn emit_headers(&mut self, headers: &Expr, span: Span) {
        self.check_emitted(headers);
        for header in self.layout.header_instances(headers) {
            self.emit("emit", vec![Json::Header(header)], span);
        }
    }

    /// Reads a cell into `result`; none: the value is not wanted.
    pub(super) fn read_register(
        &mut self,
        array: String,
        register: usize,
        cell: &Expr,
        result: Option<&Expr>,
        span: Span,
    ) {
        let Some(result) = result else { return };
        let ty = self.flat.objects[register].type_args.first();
        let width = ty.and_then(Type::width).unwrap_or(0);
        let whole = self.temp(&Type::bit(width), span);
        // Beyond the end nothing is read.
        self.assign(&whole, &number(0, width, span), span);
        let parameters = vec![
            self.argument(&whole),
            Json::RegisterArray(array),
            self.argument(cell),
        ];
        self.emit("register_read", parameters, span);
        self.unpack(&whole, result, span);
    }

    /// Writes the members of a value, one behind the other, into a cell.
    pub(super) fn write_register(&mut self, array: String, cell: &Expr, value: &Expr, span: Span) {
        let Some(whole) = concatenated(value) else {
            return;
        };
        let parameters = vec![
            Json::RegisterArray(array),
            self.argument(cell),
            self.argument(&whole),
        ];
        self.emit("register_write", parameters, span);
    }
}
