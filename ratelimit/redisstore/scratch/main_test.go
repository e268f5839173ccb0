package scratch
import ("testing";"time";"context";"fmt";"sync";"sync/atomic";"sort"
"github.com/redis/go-redis/v9"
"github.com/google/uuid"
"github.com/sashlimit/sash/internal/redistest"
"github.com/sashlimit/sash/ratelimit"
"github.com/sashlimit/sash/ratelimit/redisstore")
func TestThroughput(t *testing.T){
 server:=redistest.Start(t)
 client:=redis.NewClient(&redis.Options{Addr:server.Addr(),PoolSize:256})
 defer client.Close()
 st:=redisstore.New(client)
 lim,_:=ratelimit.New(ratelimit.Config{Store:st,Timeout:5*time.Second})
 var n atomic.Int64
 claimOn:=func(k string)[]ratelimit.Claim{return []ratelimit.Claim{{Key:k,Limits:[]ratelimit.Limit{{MaxRequests:10,Window:time.Minute}},Cost:1}}}
 runs:=map[string]func(i int64){
  "coalesced":func(i int64){var d [1]ratelimit.Decision; if err:=st.Take(context.Background(),uuid.New(),claimOn(fmt.Sprint("a",i%100000)),d[:]);err!=nil{t.Fatal(err)}},
  "alone":func(i int64){var d [1]ratelimit.Decision; if err:=st.WithoutCoalescing().Take(context.Background(),uuid.New(),claimOn(fmt.Sprint("b",i%100000)),d[:]);err!=nil{t.Fatal(err)}},
  "limiter":func(i int64){lim.Allow(context.Background(),fmt.Sprint("c",i%100000),ratelimit.Limit{MaxRequests:10,Window:time.Minute})},
  "ping":func(i int64){client.Ping(context.Background())},
  "hot":func(i int64){var d [1]ratelimit.Decision; c:=claimOn("hot");c[0].Limits=[]ratelimit.Limit{{MaxRequests:1000000,Window:time.Minute}};if err:=st.Take(context.Background(),uuid.New(),c,d[:]);err!=nil{t.Fatal(err)}},
  "hot denied":func(i int64){var d [1]ratelimit.Decision; c:=claimOn("hotd");if err:=st.Take(context.Background(),uuid.New(),c,d[:]);err!=nil{t.Fatal(err)}},
 }
 cpu:=func()float64{ var a,b float64; for _,l:=range []string{client.Info(context.Background(),"cpu").Val()} { fmt.Sscanf(l[indexOf(l,"used_cpu_sys:")+13:],"%f",&a); fmt.Sscanf(l[indexOf(l,"used_cpu_user:")+14:],"%f",&b)}; return a+b}
 names:=[]string{"ping","alone","coalesced","limiter","hot","hot denied"}
 for _,callers:=range []int{1,64,256}{
 for range 2 { for _,name:=range names{
  var wg sync.WaitGroup; start:=time.Now(); var done atomic.Int64; c0:=cpu()
  lat:=make([][]time.Duration,callers)
  for w:=range callers{ wg.Go(func(){ for time.Since(start)<time.Second{ s:=time.Now(); runs[name](n.Add(1)); lat[w]=append(lat[w],time.Since(s)); done.Add(1)}})}
  wg.Wait(); c1:=cpu()
  var all []time.Duration; for _,l:=range lat{all=append(all,l...)}; sort.Slice(all,func(i,j int)bool{return all[i]<all[j]})
  t.Logf("%3d %-10s %8.0f/s  p50 %v p99 %v  cpu %.1f us", callers,name,float64(done.Load())/time.Since(start).Seconds(),all[len(all)/2].Round(time.Microsecond),all[len(all)*99/100].Round(time.Microsecond),(c1-c0)*1e6/float64(done.Load()))
 }}}
}
func indexOf(s,sub string)int{for i:=0;i+len(sub)<=len(s);i++{if s[i:i+len(sub)]==sub{return i}};return -1}
