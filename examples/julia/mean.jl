# One epoch of a pipeline file in Julia: the mean of every column of its first output, (B, n) in float32. Untested: see docs/languages.md.
#
#     julia mean.jl basins.yaml
const lib = "libforebay"

struct FbyTensor
    output::Cstring
    role::Cstring
    dtype::Cint
    ndim::Int32
    shape::NTuple{8,Int64}
    data::Ptr{Cfloat}
    bytes::Csize_t
end

# fby_error: two ints, an int64, 1000 bytes of message
err = zeros(UInt8, 1016)
check(status) = status == 0 || error(unsafe_string(pointer(err, 17)))

function mean(path)
    pipeline, loader, batch = Ref{Ptr{Cvoid}}(C_NULL), Ref{Ptr{Cvoid}}(C_NULL), Ref{Ptr{Cvoid}}(C_NULL)
    check(@ccall lib.fby_pipeline_open(path::Cstring, C_NULL::Ptr{Cvoid}, pipeline::Ref{Ptr{Cvoid}}, err::Ptr{UInt8})::Cint)
    check(@ccall lib.fby_pipeline_loader(pipeline[]::Ptr{Cvoid}, C_NULL::Cstring, loader::Ref{Ptr{Cvoid}}, err::Ptr{UInt8})::Cint)
    total, n = 0.0, 0
    while true
        status = @ccall lib.fby_loader_next(loader[]::Ptr{Cvoid}, (-1)::Int64, batch::Ref{Ptr{Cvoid}}, err::Ptr{UInt8})::Cint
        status == 1 && break  # FBY_END
        check(status)
        t = unsafe_load(@ccall lib.fby_batch_tensor(batch[]::Ptr{Cvoid}, 0::Csize_t)::Ptr{FbyTensor})
        x = unsafe_wrap(Array, t.data, (t.shape[2], t.shape[1]))  # the last axis of C is the first of Julia
        total = total .+ vec(sum(Float64.(x), dims=2))
        n += size(x, 2)
        @ccall lib.fby_batch_unref(batch[]::Ptr{Cvoid})::Cvoid
    end
    @ccall lib.fby_loader_close(loader[]::Ptr{Cvoid})::Cvoid
    @ccall lib.fby_pipeline_close(pipeline[]::Ptr{Cvoid})::Cvoid
    return total ./ n
end

println(join(mean(ARGS[1]), " "))
