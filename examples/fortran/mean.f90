! One epoch of a pipeline file in Fortran: the mean of every column of its first output, (B, n) in float32.
!
!     gfortran forebay.f90 mean.f90 -o mean $(pkg-config --libs forebay)
!     ./mean basins.yaml
program mean
  use forebay
  implicit none
  character(len=4096) :: path
  character(kind=c_char), pointer :: name(:)
  type(fby_error) :: err
  type(fby_tensor), pointer :: tensor
  type(c_ptr) :: pipeline = c_null_ptr, loader = c_null_ptr, batch
  integer(c_int) :: status
  real(c_float), pointer :: x(:, :)
  real(c_double), allocatable :: total(:)
  integer(c_int64_t) :: n

  if (command_argument_count() /= 1) stop 2
  call get_command_argument(1, path)
  status = fby_pipeline_open(trim(path) // c_null_char, c_null_ptr, pipeline, err)
  if (status == FBY_OK) status = fby_pipeline_loader(pipeline, c_null_ptr, loader, err)
  if (status /= FBY_OK) call fail()

  n = 0
  do
    status = fby_loader_next(loader, -1_c_int64_t, batch, err)
    if (status /= FBY_OK) exit
    call c_f_pointer(fby_batch_tensor(batch, 0_c_size_t), tensor)
    call c_f_pointer(fby_dtype_name(tensor%dtype), name, [16])
    if (text(name) /= 'float32' .or. tensor%ndim /= 2) stop 'the first output is not (B, n) of float32'
    call c_f_pointer(tensor%data, x, [tensor%shape(2), tensor%shape(1)])  ! the last axis of C is the first of Fortran
    if (.not. allocated(total)) allocate (total(size(x, 1)), source=0d0)
    total = total + sum(real(x, c_double), dim=2)
    n = n + size(x, 2)
    call fby_batch_unref(batch)
  end do
  if (status /= FBY_END) call fail()
  print '(*(g0.9, 1x))', total / n
  call fby_loader_close(loader)
  call fby_pipeline_close(pipeline)

contains

  subroutine fail()
    use, intrinsic :: iso_fortran_env, only: error_unit
    write (error_unit, '(a)') text(err%message)
    call fby_loader_close(loader)
    call fby_pipeline_close(pipeline)
    stop 1
  end subroutine
end program
